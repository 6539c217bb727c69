// Values that are moved only as far and as much as their readers need: classes of programs, the
// bytes counted from the collectives of the program, the values compared with one device.

#include <fmt/format.h>

#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

const std::string kComparators =
    "gt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    " ROOT r = pred[] compare(a, b), direction=GT }\n"
    "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    " ROOT r = pred[] compare(a, b), direction=LT }\n"
    "pairs { a = f32[] parameter(0)\n b = f32[] parameter(1)\n i = s32[] parameter(2)\n"
    " j = s32[] parameter(3)\n ROOT r = pred[] compare(b, a), direction=LT }\n"
    "turned { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] negate(a)\n"
    " d = f32[] negate(b)\n ROOT r = pred[] compare(c, d), direction=GT }\n"
    "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
    "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] maximum(a, b) }\n"
    "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    " ROOT r = pred[] compare(a, b), direction=GE }\n"
    "best { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n"
    " j = s32[] parameter(3)\n g = pred[] compare(v, w), direction=GE\n"
    " x = f32[] select(g, v, w)\n y = s32[] select(g, i, j)\n"
    " ROOT t = (f32[], s32[]) tuple(x, y) }\n";

struct Sent {
  int64_t bytes = 0;
  int64_t collectives = 0;
};

// What the program sends; its values are those of one device, for some arguments.
Sent sent(const std::string& entry, int64_t devices, const std::string& called = {}) {
  const std::string text = "HloModule m\n" + kComparators + called + "ENTRY e {\n" + entry + "}\n";
  INFO(text);
  const auto module = parse_module(text);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::string difference = difference_when_partitioned(*module, devices, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = devices;
  Sent result;
  for (const CollectiveStats& s : collective_stats(*run_pipeline(*module, options).local)) {
    result.bytes += s.bytes;
    result.collectives += s.count;
  }
  return result;
}

// Dim `dim` of `rank` split over all devices.
std::string split(int64_t devices, int64_t rank, int64_t dim) {
  std::string dims;
  for (int64_t d = 0; d < rank; ++d)
    dims += fmt::format("{}{}", d > 0 ? "," : "", d == dim ? devices : 1);
  return fmt::format("{{devices=[{}]<=[{}]}}", dims, devices);
}

std::string array(const std::vector<int64_t>& dims) {
  std::string text = "f32[";
  for (size_t d = 0; d < dims.size(); ++d) text += fmt::format("{}{}", d > 0 ? "," : "", dims[d]);
  return text + "]";
}

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

TEST_CASE("partition: parts of an iota of few bits are rounded as the whole is", "[partition]") {
  for (const char* type : {"bf16", "f16", "f8e4m3fn", "f32", "u8", "c64"})
    for (const int devices : {5, 8}) {
      const Sent none = sent(
          fmt::format(" i = {0}[4410] iota(), iota_dimension=0, sharding={{devices=[{1}]<=[{1}]}}\n"
                      " b = f32[4410] {2}\n"
                      " ROOT r = f32[4410] multiply(b, b), sharding={{devices=[{1}]<=[{1}]}}\n",
                      type, devices, type == std::string("c64") ? "real(i)" : "convert(i)"),
          devices);
      CHECK(none.bytes == 0);
    }
}

TEST_CASE("a custom-call to TopK is the opcode topk, however it says its order", "[moves]") {
  struct Form {
    std::string call;
    bool largest;
  };
  const std::vector<Form> forms = {
      {"custom_call_target=\"TopK\"", true},
      {"custom_call_target=\"TopK\", called_computations={gt}", true},
      {"custom_call_target=\"TopK\", called_computations={lt}", false},
      {"custom_call_target=\"TopK\", called_computations={pairs}", true},
      {"custom_call_target=\"TopK\", called_computations={turned}", false},
      {"custom_call_target=\"TopK\", to_apply=lt", false},
      {R"(custom_call_target="TopK", backend_config="{\"k\": 3, \"largest\": false}")", false},
      {R"(custom_call_target="TopK", backend_config={"largest":false})", false},
      {R"(custom_call_target="mhlo.topk", backend_config="{k = 3 : i64, largest = true}")", true}};
  for (const Form& form : forms)
    for (const int64_t devices : {2, 3, 4})
      for (const int64_t dim : {0, 1}) {
        const auto program = [&](const std::string& op, int64_t leaf) {
          return fmt::format(
              "x = f32[12,36] parameter(0), sharding={0}\nt = (f32[12,3], s32[12,3]) {1}\n"
              "v = f32[12,3] get-tuple-element(t), index=0\n"
              "w = s32[12,3] get-tuple-element(t), index=1\n"
              "ROOT r = (f32[12,3], s32[12,3]) tuple(v, w), sharding={{{2},{2}}}\n",
              split(devices, 2, dim), op, leaf == 0 ? split(devices, 2, 0) : "{replicated}");
        };
        const int64_t leaf = dim == 0 ? 0 : 1;
        const std::string call = "custom-call(x), " + form.call;
        const std::string opcode =
            fmt::format("topk(x), k=3, largest={}", form.largest ? "true" : "false");
        const Sent by_call = sent(program(call, leaf), devices);
        CHECK(by_call.bytes == sent(program(opcode, leaf), devices).bytes);
        CHECK(by_call.bytes <= (dim == 0 ? 0 : 2 * (devices - 1) * 12 * 3 * 4));
        // The same elements on one device.
        const auto value = [&](const std::string& op) {
          const auto module =
              parse_module("HloModule m\n" + kComparators + "ENTRY e {\n" + program(op, 1) + "}\n");
          return leaves(evaluate(*module, integer_arguments(*module, 5)));
        };
        const std::vector<Array> one = value(call), other = value(opcode);
        for (size_t i = 0; i < 2; ++i) CHECK(std::ranges::equal(one[i].bytes(), other[i].bytes()));
      }
}

TEST_CASE("TopK by a comparator that is no order runs nowhere, but is cut along batches",
          "[moves]") {
  const std::string text =
      "HloModule m\nodd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] abs(a)\n"
      " d = f32[] abs(b)\n ROOT r = pred[] compare(c, d), direction=GT }\nENTRY e {\n"
      "x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "ROOT t = (f32[8,2], s32[8,2]) custom-call(x), custom_call_target=\"TopK\", "
      "called_computations={odd}, sharding={{devices=[4,1]<=[4]},{devices=[4,1]<=[4]}}\n}\n";
  const auto module = parse_module(text);
  CHECK_THROWS_WITH(evaluate(*module, integer_arguments(*module, 1)),
                    Catch::Contains("is no order of its first two parameters"));
  PipelineOptions options;
  options.num_devices = 4;
  CHECK(collective_stats(*run_pipeline(*module, options).local).empty());
}

TEST_CASE("what is cut from a value that is laid out whole is cut where the value was made",
          "[moves]") {
  for (const int64_t devices : {2, 3, 4, 8})
    for (const int64_t rows : {24, 10}) {
      const int64_t part = ceil_of(rows, devices);
      const auto bytes = [&](const std::string& cut) {
        int64_t most = 0;
        for (const bool copied : {false, true})  // laid out where it is made, or by a copy
          most = std::max(
              most,
              sent(fmt::format("x = f32[{0},30] parameter(0), sharding={1}\n"
                               "i = s32[] parameter(1)\nz = s32[] constant(0)\n"
                               "{3} = f32[{0},30] sort(x), dimensions={{1}}, to_apply=gt{4}\n{2}\n",
                               rows, split(devices, 2, 0), cut, copied ? "o" : "s",
                               copied ? fmt::format("\ns = f32[{},30] copy(o), "
                                                    "sharding={{replicated}}",
                                                    rows)
                                      : ", sharding={replicated}"),
                   devices)
                  .bytes);
        return most;
      };
      // One gather, of the five columns that are read.
      CHECK(bytes(fmt::format("ROOT c = f32[{0},5] slice(s), slice={{[0:{0}],[3:8]}}, "
                              "sharding={{replicated}}",
                              rows)) <= (devices - 1) * part * 5 * 4);
      CHECK(bytes(fmt::format("ROOT c = f32[{0},5] dynamic-slice(s, z, i), "
                              "dynamic_slice_sizes={{{0},5}}, sharding={{replicated}}",
                              rows)) <= (devices - 1) * part * 5 * 4);
      // Two pieces; and of all of it nothing else.
      CHECK(bytes(fmt::format("c = f32[{0},2] slice(s), slice={{[0:{0}],[0:2]}}, "
                              "sharding={{replicated}}\n"
                              "d = f32[{0},1] slice(s), slice={{[0:{0}],[29:30]}}, "
                              "sharding={{replicated}}\n"
                              "ROOT t = (f32[{0},2], f32[{0},1]) tuple(c, d), "
                              "sharding={{{{replicated}},{{replicated}}}}",
                              rows)) <= (devices - 1) * part * 3 * 4);
    }
}

TEST_CASE("a roll by a number known at run time turns shards round, or gathers them once",
          "[moves]") {
  for (const int64_t devices : {2, 3, 4, 6, 8, 16})
    for (const int64_t size : {48, 30, 16})
      for (const bool rows : {true, false}) {
        const int64_t part = ceil_of(size, devices), rest = 6;
        const std::string shape = rows ? array({size, rest}) : array({rest, size});
        const std::string twice = rows ? array({2 * size, rest}) : array({rest, 2 * size});
        const int64_t dim = rows ? 0 : 1;
        const std::string layout = split(devices, 2, dim);
        const Sent moved = sent(
            fmt::format("x = {0} parameter(0), sharding={1}\nn = s32[] parameter(1)\n"
                        "k = s32[] constant(7)\nby = s32[] multiply(n, k)\nz = s32[] constant(0)\n"
                        "c = {2} concatenate(x, x), dimensions={{{3}}}\n"
                        "ROOT r = {0} dynamic-slice(c, {4}), dynamic_slice_sizes={{{5},{6}}}, "
                        "sharding={1}\n",
                        shape, layout, twice, dim, rows ? "by, z" : "z, by", rows ? size : rest,
                        rows ? rest : size),
            devices);
        int64_t digits = 0;
        for (int64_t step = 1; step < devices; step *= 2) ++digits;
        const int64_t gather = (devices - 1) * part;
        const int64_t turned = (digits + 1) * part;
        const int64_t most = size % devices == 0 ? std::min(gather, turned) : gather;
        CHECK(moved.bytes <= most * rest * 4);
      }
}

TEST_CASE("what every device has whole is cut, not put together from its shards", "[moves]") {
  for (const int64_t devices : {2, 4, 6}) {
    const std::string a = split(devices, 2, 0), b = split(devices, 2, 1);
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)})
      for (const std::string& wanted : {y, std::string("{replicated}")}) {
        CHECK(sent(fmt::format("x = f32[12,10] parameter(0), sharding={{replicated}}\n"
                               "c = f32[12,10] copy(x), sharding={0}\n"
                               "d = f32[12,10] multiply(c, c), sharding={0}\n"
                               "f = f32[12,10] add(c, c), sharding={1}\n"
                               "ROOT t = (f32[12,10], f32[12,10]) tuple(d, f), "
                               "sharding={{{0},{1}}}\n",
                               x, wanted),
                   devices)
                  .bytes == 0);
        // Through a transpose as well.
        CHECK(sent(fmt::format("x = f32[10,12] parameter(0), sharding={{replicated}}\n"
                               "c = f32[12,10] transpose(x), dimensions={{1,0}}, sharding={0}\n"
                               "d = f32[12,10] multiply(c, c), sharding={0}\n"
                               "f = f32[12,10] copy(c), sharding={1}\n"
                               "ROOT t = (f32[12,10], f32[12,10]) tuple(d, f), "
                               "sharding={{{0},{1}}}\n",
                               x, wanted),
                   devices)
                  .bytes == 0);
      }
  }
  // What was gathered for one reader is cut for the next.
  const Sent twice = sent(
      "x = f32[16,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "c = f32[16,16] copy(x), sharding={replicated}\n"
      "f = f32[16,16] copy(x), sharding={devices=[1,4]<=[4]}\n"
      "ROOT t = (f32[16,16], f32[16,16]) tuple(c, f), "
      "sharding={{replicated},{devices=[1,4]<=[4]}}\n",
      4);
  CHECK(twice.bytes == 3 * 4 * 16 * 4);
}

TEST_CASE("a broadcast goes from any layout of its new dims to any other for nothing", "[moves]") {
  const std::vector<std::string> layouts = {"{replicated}",
                                            "{devices=[4,1,1]<=[4]}",
                                            "{devices=[1,1,4]<=[4]}",
                                            "{devices=[2,1,2]<=[4]}",
                                            "{devices=[2,1,2]<=[2,2]T(1,0)}",
                                            "{devices=[1,1,2,2]<=[4] last_tile_dim_replicate}",
                                            "{devices=[4,1,1]3,1,0,2}"};
  for (const std::string& from : layouts)
    for (const std::string& to : layouts)
      for (const bool computed : {false, true}) {
        const std::string last = fmt::format("b{0}", computed ? "3" : "");
        CHECK(sent(fmt::format("x = f32[6] parameter(0), sharding={{replicated}}\n"
                               "b = f32[8,6,4] broadcast(x), dimensions={{1}}, sharding={0}\n"
                               "b1 = f32[8,6,4] negate(b), sharding={0}\n"
                               "k = f32[] constant(2)\n"
                               "b2 = f32[8,6,4] broadcast(k), dimensions={{}}, sharding={0}\n"
                               "b3 = f32[8,6,4] multiply(b1, b2), sharding={0}\n"
                               "d = f32[8,6,4] copy({2}), sharding={1}\n"
                               "ROOT t = (f32[8,6,4], f32[8,6,4]) tuple(b3, d), "
                               "sharding={{{0},{1}}}\n",
                               from, to, last),
                   4)
                  .bytes == 0);
      }
  // The dims that it has of its operand are moved before they are repeated.
  CHECK(sent("x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
             "b = f32[8,32] broadcast(x), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"
             "ROOT d = f32[8,32] copy(b), sharding={devices=[1,4]<=[4]}\n",
             4)
            .bytes == 3 * 2 * 4);
}

TEST_CASE("one tile that has all of what is wanted whole sends it out once", "[moves]") {
  for (const int64_t devices : {3, 4, 8}) {
    CHECK(sent(fmt::format("x = f32[1,40] parameter(0), sharding={}\n"
                           "ROOT r = f32[1,40] copy(x), sharding={{replicated}}\n",
                           split(devices, 2, 0)),
               devices)
              .bytes == 40 * 4);
    for (int64_t tile = 0; tile < devices; ++tile)
      for (const int64_t length : {1, 3, 5}) {
        const int64_t part = 5, size = part * devices, begin = tile * part + (part - length) / 2;
        for (const bool named : {false, true}) {
          const Sent one = sent(
              fmt::format("x = f32[{0},12] parameter(0), sharding={1}\n{5} = f32[{2},7] slice(x), "
                          "slice={{[{3}:{4}],[2:9]}}{6}",
                          size, split(devices, 2, 0), length, begin, begin + length,
                          named ? "s" : "ROOT s",
                          named ? fmt::format("\nROOT r = f32[{},7] copy(s), "
                                              "sharding={{replicated}}\n",
                                              length)
                                : ", sharding={replicated}\n"),
              devices);
          CHECK(one.collectives == 1);
          CHECK(one.bytes == length * 7 * 4);
        }
      }
  }
}

TEST_CASE("an op on one device is done there, whatever it is", "[moves]") {
  const std::string there = "{maximal device=2}";
  for (const int64_t devices : {3, 4}) {
    const auto run = [&](const std::string& op, const std::string& shape, bool tuple,
                         const std::string& result) {
      const std::string leaves = tuple ? fmt::format("{{{0},{0}}}", result) : result;
      return sent(fmt::format("x = f32[6,20] parameter(0), sharding={0}\n"
                              "i = s32[6,20] iota(), iota_dimension=1, sharding={0}\n"
                              "z = f32[] constant(0)\nn = s32[] constant(0)\n"
                              "ROOT r = {1} {2}, sharding={3}\n",
                              there, shape, op, leaves),
                  devices)
          .bytes;
    };
    const std::string sort = "sort(x), dimensions={1}, to_apply=gt";
    const std::string reduce = "reduce(x, i, z, n), dimensions={1}, to_apply=best";
    const std::string window = "reduce-window(x, z), window={size=1x3}, to_apply=add";
    CHECK(run(sort, "f32[6,20]", false, there) == 0);
    CHECK(run(reduce, "(f32[6], s32[6])", true, there) == 0);
    CHECK(run(window, "f32[6,18]", false, there) == 0);
    // What is smaller than the operands goes out instead of them.
    CHECK(run(reduce, "(f32[6], s32[6])", true, "{replicated}") == 2 * 6 * 4);
  }
}

TEST_CASE("what repeats a number on one device has it from there", "[moves]") {
  for (const char* wanted : {"{replicated}", "{devices=[4]<=[4]}"})
    for (const int64_t size : {1, 3, 8})
      sent(fmt::format("c = f32[] parameter(1), sharding={{maximal device=0}}\n"
                       "b = f32[{0}] broadcast(c), dimensions={{}}, sharding={{devices=[4]<=[4]}}\n"
                       "x = f32[{0}] parameter(0), sharding={{devices=[4]<=[4]}}\n"
                       "ROOT r = f32[{0}] add(b, x), sharding={1}\n",
                       size, wanted),
           4);
}

TEST_CASE("halos of pools hold what windows read and no more", "[moves]") {
  struct Lacks {
    int64_t before = 0, behind = 0;  // of a shard, over all tiles
    void add(int64_t from, int64_t to, int64_t part, int64_t tile, int64_t size) {
      from = std::max<int64_t>(from, 0);
      to = std::min(to, size);
      if (from >= to) return;
      before = std::max(before, tile * part - from);
      behind = std::max(behind, to - (tile + 1) * part);
    }
    int64_t sum() const { return before + behind; }
  };
  const int64_t tiles = 4;
  for (const int64_t window : {2, 3, 4})
    for (const int64_t stride : {2, 3})
      for (const int64_t size : {24, 28, 30, 36, 44, 52})
        for (const int64_t low : {0, 1}) {
          const int64_t count = (size + low - window) / stride + 1;
          const int64_t part = ceil_of(size, tiles), each = ceil_of(count, tiles);
          Lacks x, source, pooled;
          for (int64_t t = 0; t < tiles; ++t) {
            int64_t first = count, last = -1;
            for (int64_t w = 0; w < count; ++w) {
              const int64_t begin = w * stride - low, end = begin + window;
              if (begin >= std::min(size, (t + 1) * part) || end <= t * part) continue;
              first = std::min(first, w);
              last = std::max(last, w);
            }
            if (last >= 0) {
              x.add(first * stride - low, last * stride - low + window, part, t, size);
              source.add(first, last + 1, each, t, count);
            }
            const int64_t from = t * each, to = std::min(count, (t + 1) * each);
            if (from < to)
              pooled.add(from * stride - low, (to - 1) * stride - low + window, part, t, size);
          }
          CAPTURE(window, stride, size, low, x.before, x.behind, source.before, source.behind);
          const std::string layout = split(tiles, 2, 1);
          const std::string attributes =
              fmt::format("window={{size=1x{} stride=1x{} pad=0_0x{}_0}}", window, stride, low);
          CHECK(sent(fmt::format("x = f32[3,{0}] parameter(0), sharding={1}\n"
                                 "s = f32[3,{2}] parameter(1), sharding={1}\n"
                                 "z = f32[] constant(0)\n"
                                 "ROOT r = f32[3,{0}] select-and-scatter(x, s, z), {3}, "
                                 "select=ge, scatter=add, sharding={1}\n",
                                 size, layout, count, attributes),
                     tiles)
                    .bytes <= (x.sum() + source.sum()) * 3 * 4);
          CHECK(sent(fmt::format("x = f32[3,{0}] parameter(0), sharding={1}\n"
                                 "z = f32[] constant(-1000)\n"
                                 "ROOT r = f32[3,{2}] reduce-window(x, z), {3}, to_apply=max, "
                                 "sharding={1}\n",
                                 size, layout, count, attributes),
                     tiles)
                    .bytes <= pooled.sum() * 3 * 4);
        }
}

TEST_CASE("a reversal of an uneven dim exchanges no more than devices lack", "[moves]") {
  for (const int64_t devices : {2, 3, 4, 8})
    for (const int64_t size : {16, 30, 29, 61, 9})
      for (const bool turned : {false, true}) {
        const int64_t part = ceil_of(size, devices), tail = part * devices - size;
        std::string order;
        for (int64_t d = devices - 1; d >= 0; --d)
          order += fmt::format("{}{}", order.empty() ? "" : ",", d);
        const std::string layout = split(devices, 2, 1);
        const std::string other =
            turned ? fmt::format("{{devices=[1,{}]{}}}", devices, order) : layout;
        for (const auto& [from, to] : {std::pair(layout, other), std::pair(other, layout)})
          for (const char* dims : {"1", "0,1"}) {
            const Sent moved = sent(fmt::format("x = f32[3,{0}] parameter(0), sharding={1}\n"
                                                "ROOT r = f32[3,{0}] reverse(x), "
                                                "dimensions={{{3}}}, sharding={2}\n",
                                                size, from, to, dims),
                                    devices);
            // Shards that are turned round where they are wanted lack what the tail has moved.
            CHECK(moved.bytes <= (turned ? std::min(tail, part) : part) * 3 * 4);
          }
      }
}

TEST_CASE("a reversed kernel whose parts stand in the opposite order stays where it is",
          "[moves]") {
  for (const int64_t devices : {2, 4})
    for (const int64_t size : {16, 14, 10})
      for (const int64_t pad : {0, 1}) {
        const int64_t part = ceil_of(size, devices), outputs = 2 * pad + 1;
        std::string order;
        for (int64_t d = devices - 1; d >= 0; --d)
          order += fmt::format("{}{}", order.empty() ? "" : ",", d);
        const Sent moved = sent(
            fmt::format("x = f32[2,{0},3] parameter(0), sharding={1}\n"
                        "k = f32[{0},3,5] parameter(1), sharding={{devices=[{2},1,1]{3}}}\n"
                        "ROOT r = f32[2,{4},5] convolution(x, k), window={{size={0} pad={5}_{5} "
                        "rhs_reversal=1}}, dim_labels=b0f_0io->b0f, sharding={{replicated}}\n",
                        size, split(devices, 3, 1), devices, order, outputs, pad),
            devices);
        // Halos of the input, of what the tail and the padding move, and the sum.
        const int64_t result = 2 * outputs * 5 * 4, tail = part * devices - size;
        const int64_t sum = ceil_of(2 * (devices - 1) * result, devices);
        CHECK(moved.bytes <= sum + (2 * pad + std::min(tail, part)) * 2 * 3 * 4);
      }
}

TEST_CASE("carries of a scan that do not meet are split over the same devices", "[moves]") {
  const std::string step =
      "step { x = f32[{0}] parameter(0)\n y = f32[{1}] parameter(1)\n a = f32[{0}] parameter(2)\n"
      " b = f32[{1}] parameter(3)\n c = f32[{1}] parameter(4)\n na = f32[{0}] add(a, x)\n"
      " nb = f32[{1}] subtract(b, y)\n nc = f32[{1}] maximum(c, nb)\n"
      " ROOT t = (f32[{0}], f32[{1}], f32[{0}], f32[{1}], f32[{1}]) tuple(na, nc, na, nb, nc) }\n";
  for (const int64_t devices : {2, 4})
    for (const int64_t n : {8, 10})
      for (const int64_t m : {12, 16}) {
        const std::string rows = split(devices, 2, 1), flat = split(devices, 1, 0);
        const Sent none = sent(
            fmt::format("x = f32[6,{0}] parameter(0), sharding={2}\n"
                        "y = f32[6,{1}] parameter(1), sharding={2}\n"
                        "a = f32[{0}] parameter(2), sharding={3}\n"
                        "b = f32[{1}] parameter(3), sharding={3}\n"
                        "c = f32[{1}] parameter(4), sharding={3}\n"
                        "ROOT s = (f32[6,{0}], f32[6,{1}], f32[{0}], f32[{1}], f32[{1}]) "
                        "scan(x, y, a, b, c), dimensions={{0}}, num_carries=3, is_reverse=false, "
                        "to_apply=step, sharding={{{2},{2},{3},{3},{3}}}\n",
                        n, m, rows, flat),
            devices, [&] {
              std::string text = step;
              for (const auto& [name, value] : {std::pair("{0}", n), std::pair("{1}", m)})
                for (size_t at = 0; (at = text.find(name)) != std::string::npos;)
                  text.replace(at, 3, std::to_string(value));
              return text;
            }());
        CHECK(none.bytes == 0);
      }
}

TEST_CASE("carries of a scan that meet share no device between different loops", "[moves]") {
  const std::string step =
      "step { x = f32[8] parameter(0)\n y = f32[12] parameter(1)\n a = f32[8] parameter(2)\n"
      " b = f32[12,16] parameter(3)\n c = f32[16] parameter(4)\n na = f32[8] add(a, x)\n"
      " by = f32[12,16] broadcast(y), dimensions={0}\n"
      " bc = f32[12,16] broadcast(c), dimensions={1}\n d = f32[12,16] add(b, by)\n"
      " nb = f32[12,16] maximum(d, bc)\n"
      " ROOT t = (f32[8], f32[8], f32[12,16], f32[16]) tuple(na, na, nb, c) }\n";
  for (const int64_t devices : {2, 4})
    for (const std::string& wanted : {std::string("{replicated}"), split(devices, 2, 0)})
      sent(fmt::format("x = f32[6,8] parameter(0), sharding={0}\n"
                       "y = f32[6,12] parameter(1), sharding={0}\n"
                       "a = f32[8] parameter(2), sharding={1}\n"
                       "b = f32[12,16] parameter(3), sharding={2}\n"
                       "c = f32[16] parameter(4), sharding={1}\n"
                       "ROOT s = (f32[6,8], f32[8], f32[12,16], f32[16]) scan(x, y, a, b, c), "
                       "dimensions={{0}}, num_carries=3, is_reverse=false, to_apply=step, "
                       "sharding={{{0},{1},{2},{1}}}\n",
                       split(devices, 2, 1), split(devices, 1, 0), wanted),
           devices, step);
}

TEST_CASE("slices of one value are one exchange", "[moves]") {
  for (const int64_t devices : {2, 3, 4, 8})
    for (const int64_t count : {2, 3, 4})
      for (const int64_t each : {24, 16, 10}) {
        const int64_t size = count * each, part = ceil_of(size, devices);
        std::string slices, names, shapes, layouts, sum;
        const std::string layout = split(devices, 2, 1);
        int64_t own = 0;
        for (int64_t i = 0; i < count; ++i) {
          slices += fmt::format(
              "s{0} = f32[3,{1}] slice(x), slice={{[0:3],[{2}:{3}]}}, "
              "sharding={4}\n",
              i, each, i * each, (i + 1) * each, layout);
          names += fmt::format("{}s{}", i > 0 ? ", " : "", i);
          shapes += fmt::format("{}f32[3,{}]", i > 0 ? ", " : "", each);
          layouts += fmt::format("{}{}", i > 0 ? "," : "", layout);
          own += ceil_of(each, devices);
        }
        const Sent all = sent(fmt::format("x = f32[3,{0}] parameter(0), sharding={1}\n{2}"
                                          "ROOT t = ({3}) tuple({4}), sharding={{{5}}}\n",
                                          size, layout, slices, shapes, names, layouts),
                              devices);
        // No more than a device ends up with, give or take the tails.
        if (size % devices == 0 && each % devices == 0) CHECK(all.bytes <= part * 3 * 4);
        CHECK(all.bytes <= (own + part) * 3 * 4);
      }
}

TEST_CASE("a net of convolutions exchanges halos, whatever lies between", "[moves]") {
  // Halos of one row each way, and of two where the window has five.
  for (const int64_t devices : {2, 4, 8})
    for (const int64_t rows : {48, 64, 240})
      for (const int64_t layers : {2, 3, 4}) {
        const int64_t columns = 12, channels = 3;
        const std::string image = fmt::format("f32[1,{},{},{}]", rows, columns, channels);
        std::string text =
            fmt::format("v0 = {} parameter(0), sharding={}\n", image, split(devices, 4, 1));
        int64_t halo = 0;
        for (int64_t i = 0; i < layers; ++i) {
          const int64_t size = i == layers - 1 ? 5 : 3, pad = size / 2;
          text += fmt::format(
              "k{0} = f32[{1},{1},{2},{2}] parameter({3})\n"
              "c{0} = {4} convolution(v{0}, k{0}), window={{size={1}x{1} pad={5}_{5}x{5}_{5}}}, "
              "dim_labels=b01f_01io->b01f\nv{3} = {4} tanh(c{0})\n",
              i, size, channels, i + 1, image, pad);
          halo += 2 * pad * columns * channels * 4;
        }
        text += fmt::format(
            "zero = f32[] constant(0)\n"
            "ROOT top = f32[] reduce(v{}, zero), dimensions={{0,1,2,3}}, to_apply=max\n",
            layers);
        CHECK(sent(text, devices).bytes <= halo + 8);
      }
}
