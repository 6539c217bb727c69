// Ops that stay split along the dims that they reorder, choose from or regroup: equal bits, and no
// gather of the whole.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gspmd/ir/text.h"
#include "passes/combiners.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_special_test {
namespace {

using Strings = std::vector<std::string>;

// The module of `body`, in which @ stands for the sharding.
std::unique_ptr<Module> module_of(const std::string& body, const std::string& sharding) {
  return parse_module(std::string("HloModule m\n") + kSum + kLargest +
                      R"(less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = pred[] compare(a, b), direction=LT }
at_least { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = pred[] compare(a, b), direction=GE }
ENTRY e {
)" + with_sharding(body, sharding) +
                      "\n}\n");
}

// The collectives; the program equals the whole one.
Strings moved(const std::string& body, const std::string& sharding, int64_t num_devices) {
  const auto module = module_of(body, sharding);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::string difference = difference_when_partitioned(*module, num_devices, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = num_devices;
  return results_of_collectives(run_pipeline(*module, options));
}

// The collectives of a program with roots and quotients; it computes the same but for rounding.
Strings moved_rounded(const std::string& body, const std::string& sharding, int64_t num_devices) {
  const auto module = module_of(body, sharding);
  PipelineOptions options;
  options.num_devices = num_devices;
  const CompiledModule compiled = run_pipeline(*module, options);
  const std::vector<Value> arguments = integer_arguments(*module, 1);
  const std::vector<Array> expected = leaves(evaluate(*module, arguments));
  const std::vector<Array> got = leaves(run_partitioned(compiled, num_devices, arguments));
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    for (int64_t at = 0; at < got[i].size(); ++at)
      CHECK(got[i].at(at) == Approx(expected[i].at(at)).epsilon(1e-5).margin(1e-5));
  return results_of_collectives(compiled);
}

}  // namespace

TEST_CASE("sort along a split dim exchanges tiles with another dim and back", "[special]") {
  const Strings got = moved(
      "a = f32[8,12] parameter(0), @\n ROOT r = f32[8,12] sort(a), dimensions={1}, "
      "to_apply=less, @",
      "devices=[1,4]<=[4]", 4);
  REQUIRE(got.size() == 2);
  for (const std::string& collective : got) CHECK(collective.rfind("all-to-all", 0) == 0);
}

TEST_CASE("a dynamic slice of a split dim sums the slice and does not gather the dim",
          "[special]") {
  CHECK(moved("a = f32[64,3] parameter(0), @\n i = s32[] parameter(1)\n z = s32[] constant(0)\n "
              "ROOT r = f32[2,3] dynamic-slice(a, i, z), dynamic_slice_sizes={2,3}",
              "devices=[4,1]<=[4]", 4) == Strings{"all-reduce f32[2,3]"});
}

TEST_CASE("an update of part of a split dim needs no communication", "[special]") {
  for (const int64_t devices : {3, 4, 8})
    CHECK(moved("a = f32[13,3] parameter(0), @\n u = f32[4,3] parameter(1)\n i = s32[] "
                "parameter(2)\n z = s32[] constant(0)\n ROOT r = f32[13,3] "
                "dynamic-update-slice(a, u, i, z), @",
                fmt::format("devices=[{0},1]<=[{0}]", devices), devices)
              .empty());
}

TEST_CASE("starts of dynamic slices and updates are clamped on the whole dim", "[special]") {
  for (const char* start : {"-5", "0", "11", "62", "63", "1000"})
    CHECK(moved(fmt::format("a = f32[64] parameter(0), @\n i = s32[] constant({})\n s = f32[3] "
                            "dynamic-slice(a, i), dynamic_slice_sizes={{3}}\n n = f32[3] "
                            "negate(s)\n ROOT r = f32[64] dynamic-update-slice(a, n, i), @",
                            start),
                "devices=[8]<=[8]", 8) == Strings{"all-reduce f32[3]"});
}

TEST_CASE("the index of the largest along a split dim gathers one pair per device", "[special]") {
  const Strings got = moved(
      "a = f32[3,17] parameter(0), @\n i = s32[3,17] iota(), iota_dimension=1\n m = f32[] "
      "constant(-inf)\n z = s32[] constant(0)\n ROOT r = (f32[3], s32[3]) reduce(a, i, m, z), "
      "dimensions={1}, to_apply=largest",
      "devices=[1,4]<=[4]", 4);
  CHECK(got == Strings{"all-gather f32[4,3]", "all-gather s32[4,3]"});
}

TEST_CASE("topk along a split dim gathers k of each device", "[special]") {
  const Strings got = moved(
      "a = f32[3,38] parameter(0), @\n ROOT r = (f32[3,2], s32[3,2]) topk(a), k=2, largest=true",
      "devices=[1,4]<=[4]", 4);
  CHECK(got == Strings{"all-gather f32[3,8]", "all-gather s32[3,8]"});
}

TEST_CASE("topk never chooses what pads an uneven dim", "[special]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  // The values of each type in total order.
  const std::pair<const char*, std::vector<double>> types[] = {
      {"f32", {-nan, -inf, 0, inf, nan}},     {"f64", {-nan, -inf, 0, inf, nan}},
      {"bf16", {-nan, -inf, 0, inf, nan}},    {"f8e5m2", {-nan, -inf, 0, inf, nan}},
      {"f8e4m3fn", {-nan, -448, 448, nan}},   {"f8e4m3fnuz", {-240, 240, nan}},
      {"s32", {-2147483648.0, 2147483647.0}}, {"u8", {0, 255}}};
  std::mt19937 random(3);
  for (const auto& [type, values] : types)
    for (const bool largest : {false, true})
      for (const int64_t devices : {2, 3, 4}) {
        const auto module = module_of(
            fmt::format("a = {0}[9] parameter(0), @\n ROOT r = ({0}[2], s32[2]) topk(a), k=2, "
                        "largest={1}",
                        type, largest),
            fmt::format("devices=[{0}]<=[{0}]", devices));
        PipelineOptions options;
        options.num_devices = devices;
        const CompiledModule compiled = run_pipeline(*module, options);
        for (int round = 0; round < 10; ++round) {
          Array x(module->entry()->parameters()[0]->shape);
          std::vector<size_t> ranks(9), order(9);
          const size_t first = random() % values.size(), count = 1 + random() % values.size();
          for (size_t i = 0; i < 9; ++i) {
            ranks[i] = (first + random() % count) % values.size();
            x.set(int64_t(i), values[ranks[i]]);
            order[i] = i;
          }
          std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return largest ? ranks[a] > ranks[b] : ranks[a] < ranks[b];
          });
          const std::vector<Array> got =
              leaves(run_partitioned(compiled, devices, {{x, {}, false}}));
          CAPTURE(type, largest, devices, ranks);
          for (int64_t i = 0; i < 2; ++i) CHECK(got[1].at(i) == double(order[size_t(i)]));
        }
      }
}

TEST_CASE("uneven dims are merged and split by exchanges of runs", "[special]") {
  CHECK(moved("a = f32[5,3] parameter(0), @\n ROOT r = f32[15] reshape(a), "
              "sharding={devices=[4]<=[4]}",
              "devices=[4,1]<=[4]", 4)
            .size() <= 3);
  for (const int64_t devices : {2, 3, 4, 5, 8}) {
    moved(fmt::format("a = f32[7,3] parameter(0), @\n ROOT r = f32[21] reshape(a), "
                      "sharding={{devices=[{0}]<=[{0}]}}",
                      devices),
          fmt::format("devices=[{0},1]<=[{0}]", devices), devices);
    moved(fmt::format("a = f32[30] parameter(0), @\n ROOT r = f32[5,6] reshape(a), "
                      "sharding={{devices=[{0},1]<=[{0}]}}",
                      devices),
          fmt::format("devices=[{0}]<=[{0}]", devices), devices);
  }
}

TEST_CASE("select-and-scatter over split dims exchanges halos", "[special]") {
  const char* const windows[] = {"12 6 size=2 stride=2", "12 5 size=3 stride=2",
                                 "13 7 size=3 stride=2 pad=1_1", "14 4 size=2 stride=4",
                                 "11 11 size=3 pad=1_1"};
  for (const std::string window : windows)
    for (const int64_t devices : {2, 3, 5, 8}) {
      const size_t one = window.find(' '), two = window.find(' ', one + 1);
      moved(fmt::format("a = f32[{0}] parameter(0), @\n s = f32[{1}] parameter(1), @\n z = f32[] "
                        "constant(0)\n ROOT r = f32[{0}] select-and-scatter(a, s, z), "
                        "window={{{2}}}, select=at_least, scatter=sum, @",
                        window.substr(0, one), window.substr(one + 1, two - one - 1),
                        window.substr(two + 1)),
            fmt::format("devices=[{0}]<=[{0}]", devices), devices);
    }
}

TEST_CASE("groups of a convolution are split without communication", "[special]") {
  CHECK(moved("x = f32[2,9,8] parameter(0), sharding={devices=[1,1,4]<=[4]}\n k = f32[3,2,4] "
              "parameter(1), sharding={devices=[1,1,4]<=[4]}\n ROOT r = f32[2,7,4] convolution(x, "
              "k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=4, @",
              "devices=[1,1,4]<=[4]", 4)
            .empty());
  CHECK(moved("x = f32[8,9,2] parameter(0), sharding={devices=[4,1,1]<=[4]}\n k = f32[3,2,4] "
              "parameter(1), sharding={devices=[1,1,4]<=[4]}\n ROOT r = f32[2,7,4] convolution(x, "
              "k), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=4, @",
              "devices=[1,1,4]<=[4]", 4)
            .empty());
}

TEST_CASE("grouped convolutions split on batch are local", "[special]") {
  CHECK(moved("x = f32[8,9,8] parameter(0), @\n k = f32[3,2,4] parameter(1)\n ROOT r = f32[8,7,4] "
              "convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=4, "
              "@",
              "devices=[4,1,1]<=[4]", 4)
            .empty());
}

TEST_CASE("a gradient for the kernel with both sides split sums over the devices", "[special]") {
  for (const char* more : {"", " rhs_reversal=1", " rhs_dilate=2"}) {
    const int64_t kernel = std::string(more) == " rhs_dilate=2" ? 6 : 11;
    const int64_t reach = 11;  // of all three
    const Strings got =
        moved(fmt::format("x = f32[2,13,3] parameter(0), @\n k = f32[{0},3,4] parameter(1), "
                          "sharding={{devices=[4,1,1]<=[4]}}\n ROOT r = f32[2,{1},4] "
                          "convolution(x, k), window={{size={0} pad=1_1{2}}}, "
                          "dim_labels=b0f_0io->b0f, sharding={{replicated}}",
                          kernel, 15 - reach + 1, more),
              "devices=[1,4,1]<=[4]", 4);
    REQUIRE_FALSE(got.empty());
    // A reversed kernel is read from the other end, nearly everything is needed everywhere: what
    // else sends less is done.
    if (std::string(more) == " rhs_reversal=1") continue;
    CHECK(got.back() == "all-reduce f32[2,5,4]");
    for (const std::string& collective : got)
      CHECK(collective.find("all-gather") == std::string::npos);
  }
}

TEST_CASE("batch normalisation over a split batch sums features over the devices", "[special]") {
  const auto no_gather = [](const Strings& got) {
    CHECK_FALSE(got.empty());
    for (const std::string& collective : got) CHECK(collective == "all-reduce f32[6]");
  };
  for (const char* split :
       {"devices=[4,1,1]<=[4]", "devices=[1,2,1,2]<=[4] last_tile_dim_replicate"}) {
    no_gather(moved_rounded(
        "x = f32[7,4,6] parameter(0), @\n s = f32[6] parameter(1)\n o = f32[6] "
        "parameter(2)\n t = (f32[7,4,6], f32[6], f32[6]) batch-norm-training(x, s, o), "
        "epsilon=0.1, feature_index=2\n y = f32[7,4,6] get-tuple-element(t), index=0\n "
        "ROOT r = f32[7,4,6] negate(y), @",
        split, 4));
    no_gather(moved_rounded(
        "x = f32[7,4,6] parameter(0), @\n s = f32[6] parameter(1)\n m = f32[6] "
        "parameter(2)\n w = f32[6] parameter(3)\n v = f32[6] multiply(w, w)\n c = "
        "f32[7,4,6] parameter(4), @\n t = (f32[7,4,6], f32[6], f32[6]) "
        "batch-norm-grad(x, s, m, v, c), epsilon=0.1, feature_index=2\n y = f32[7,4,6] "
        "get-tuple-element(t), index=0\n z = f32[6] get-tuple-element(t), index=1\n ROOT "
        "r = (f32[7,4,6], f32[6]) tuple(y, z), sharding={{" +
            std::string(split) + "}, {replicated}}",
        split, 4));
  }
}

// Completion puts them behind roots, and programs are printed with them.
TEST_CASE("a copy of a tuple is one of its leaves", "[tuple]") {
  const std::string body =
      "x = f32[7,4] parameter(0), sharding={devices=[2,2]<=[4]}\n y = s32[] parameter(1)\n"
      " v = f32[6] parameter(2), sharding={devices=[4]<=[4]}\n p = (f32[6], s32[]) tuple(v, y)\n"
      " t = (f32[7,4], (f32[6], s32[])) tuple(x, p)\n"
      " c = (f32[7,4], (f32[6], s32[])) copy(t)\n"
      " q = (f32[6], s32[]) get-tuple-element(c), index=1\n d = (f32[6], s32[]) copy(q)\n"
      " e = f32[6] get-tuple-element(d), index=0\n n = f32[6] negate(e)\n"
      " z = (f32[6], (f32[7,4], (f32[6], s32[]))) tuple(n, c)\n"
      " ROOT r = (f32[6], (f32[7,4], (f32[6], s32[]))) copy(z)";
  for (const char* end :
       {"\n",
        ", sharding={{devices=[4]<=[4]}, {devices=[1,4]<=[4]}, {devices=[2,2]<=[4] "
        "last_tile_dim_replicate}, {replicated}}\n"}) {
    const auto module = parse_module("HloModule m\nENTRY e {\n " + body + end + "}\n");
    const std::vector<Value> arguments = integer_arguments(*module, 3);
    for (const bool completes : {true, false}) {
      PipelineOptions options;
      options.num_devices = 4;
      options.verify_between = true;
      options.run_propagation = completes;
      const auto expected = leaves(evaluate(*module, arguments));
      const auto got = leaves(run_partitioned(run_pipeline(*module, options), 4, arguments));
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(bitwise_equal(got[i], expected[i]));
    }
  }
}

}  // namespace partition_special_test
