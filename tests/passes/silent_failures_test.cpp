// What users of existing partitioners trip over without being told, one test per case: wrong
// numbers, whole values gathered for nothing, shardings that get lost.

#include <set>

#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "passes/combiners.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace silent_failures_test {
namespace {

struct Checked {
  std::set<std::string> kinds;  // of its collectives
  int64_t bytes = 0;            // that one device sends
  size_t rematerializations = 0;
  CompiledModule compiled;
};

// The entry's lines, @ standing for `sharding`; on so many devices equal to the whole program.
Checked run(const std::string& body, const std::string& sharding, int64_t devices,
            const std::string& more = "") {
  const auto module =
      parse_module(fmt::format("HloModule m\n{}{}{}{}ENTRY e {{\n{}\n}}\n", kSum, kMost, kLargest,
                               more, with_sharding(body, sharding)));
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::string difference = difference_when_partitioned(*module, devices, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = devices;
  Checked result;
  result.compiled = run_pipeline(*module, options);
  result.rematerializations = result.compiled.full_rematerializations.size();
  for (const CollectiveStats& c : collective_stats(*result.compiled.uncombined)) {
    result.kinds.insert(c.kind);
    result.bytes += c.bytes;
  }
  return result;
}

using Kinds = std::set<std::string>;

std::string sharding_of(const CompiledModule& compiled, const std::string& name) {
  for (const auto& c : compiled.completed->computations())
    for (const auto& node : c->nodes())
      if (node->name() == name && node->sharding) return to_string(*node->sharding);
  return "none";
}

}  // namespace

TEST_CASE("silent failure: a row split to a split of two other dims gathers nothing", "[silent]") {
  const auto r = run(
      "a = f32[8,4,2,8] parameter(0), sharding={devices=[4,1,1,1]<=[4]}\n ROOT r = f32[8,4,2,8] "
      "copy(a), sharding={devices=[2,1,1,2]<=[4]}",
      "", 4);
  CHECK(r.rematerializations == 0);
  CHECK(r.kinds == Kinds{"all-to-all"});
}

TEST_CASE("silent failure: two dims in another device order to a third gather nothing",
          "[silent]") {
  const auto r = run(
      "a = f32[8,8,8] parameter(0), sharding={devices=[2,1,4]<=[4,2]T(1,0)}\n ROOT r = f32[8,8,8] "
      "copy(a), sharding={devices=[1,8,1]<=[8]}",
      "", 8);
  CHECK(r.rematerializations == 0);
  CHECK(r.kinds.count("all-gather") == 0);
}

TEST_CASE("silent failure: the padding of a stencil sends its border only", "[silent]") {
  const auto r = run(
      "a = f32[64,4] parameter(0), @\n z = f32[] constant(0)\n p = f32[66,4] pad(a, z), "
      "padding=1_1x0_0\n l = f32[64,4] slice(p), slice={[0:64], [0:4]}\n h = f32[64,4] slice(p), "
      "slice={[2:66], [0:4]}\n ROOT s = f32[64,4] add(l, h), @",
      "devices=[8,1]<=[8]", 8);
  CHECK(r.rematerializations == 0);
  CHECK(r.kinds == Kinds{"collective-permute"});
  CHECK(r.bytes <= 2 * 4 * 4);
}

TEST_CASE("silent failure: a grouped convolution split on batch is local", "[silent]") {
  const auto r =
      run("x = f32[8,9,8] parameter(0), @\n k = f32[3,2,4] parameter(1)\n ROOT r = f32[8,7,4] "
          "convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=4, @",
          "devices=[4,1,1]<=[4]", 4);
  CHECK(r.kinds.empty());
}

TEST_CASE("silent failure: a batched fft is local", "[silent]") {
  const auto r = run(
      "x = c64[8,3,4] parameter(0), @\n ROOT r = c64[8,3,4] fft(x), fft_type=FFT, fft_length={4}, "
      "@",
      "devices=[4,1,1]<=[4]", 4);
  CHECK(r.kinds.empty());
}

TEST_CASE("silent failure: the transpose of a product gathers neither operand", "[silent]") {
  const auto r = run(
      "a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n b = "
      "f32[16,8] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n "
      "d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT t = "
      "f32[8,8] transpose(d), dimensions={1,0}, sharding={devices=[4,2]<=[2,4]T(1,0)}",
      "", 8);
  CHECK(r.kinds.empty());
}

TEST_CASE("silent failure: a dim that the axis does not divide stays split", "[silent]") {
  const auto r = run(
      "a = f32[10,4] parameter(0), @\n b = f32[10,4] negate(a)\n z = f32[] constant(0)\n s = "
      "f32[4] reduce(b, z), dimensions={0}, to_apply=sum\n ROOT t = (f32[10,4], f32[4]) tuple(b, "
      "s), sharding={{devices=[8,1]<=[8]}, {replicated}}",
      "devices=[8,1]<=[8]", 8);
  CHECK(r.kinds == Kinds{"all-reduce"});
  CHECK(r.compiled.local->entry()->parameters()[0]->dims() == Dims{2, 4});
}

TEST_CASE("silent failure: a slice that starts outside is clamped on the whole dim", "[silent]") {
  for (const char* start : {"-7", "0", "5", "9", "11", "100"}) {
    const std::string i = fmt::format(" i = s32[] constant({})\n o = s32[] constant(0)\n", start);
    run("a = f32[12,3] parameter(0), @\n" + i +
            " ROOT r = f32[4,3] dynamic-slice(a, i, o), dynamic_slice_sizes={4,3}",
        "devices=[4,1]<=[4]", 4);
    run("a = f32[12,3] parameter(0), @\n u = f32[4,3] parameter(1)\n" + i +
            " ROOT r = f32[12,3] dynamic-update-slice(a, u, i, o), @",
        "devices=[4,1]<=[4]", 4);
  }
}

TEST_CASE("silent failure: a roll with one element per shard", "[silent]") {
  for (const int at : {1, 3, 7}) {
    const auto r = run(fmt::format("a = f32[8] parameter(0), @\n l = f32[{0}] slice(a), "
                                   "slice={{[{1}:8]}}\n h = f32[{1}] slice(a), slice={{[0:{1}]}}\n "
                                   "ROOT r = f32[8] concatenate(l, h), dimensions={{0}}, @",
                                   8 - at, at),
                       "devices=[8]<=[8]", 8);
    CHECK(r.kinds.count("all-gather") == 0);
  }
}

TEST_CASE("silent failure: shards that are all padding", "[silent]") {
  for (const char* const op :
       {"reverse(a), dimensions={0}", "negate(a)", "sort(a), dimensions={0}, to_apply=less"})
    run(fmt::format("a = f32[3,2] parameter(0), @\n ROOT r = f32[3,2] {}, @", op),
        "devices=[8,1]<=[8]", 8,
        "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = pred[] compare(a, b), "
        "direction=LT }\n");
  run("a = f32[3,2] parameter(0), @\n m = f32[] constant(-inf)\n ROOT r = f32[2] reduce(a, m), "
      "dimensions={0}, to_apply=most",
      "devices=[8,1]<=[8]", 8);
}

TEST_CASE("silent failure: the index of the largest over a split dim", "[silent]") {
  const auto r = run(
      "a = f32[4,10] parameter(0), @\n i = s32[4,10] iota(), iota_dimension=1\n m = f32[] "
      "constant(-inf)\n k = s32[] constant(2147483647)\n ROOT r = (f32[4], s32[4]) reduce(a, i, m, "
      "k), dimensions={1}, to_apply=largest",
      "devices=[1,4]<=[4]", 4);
  CHECK(r.rematerializations == 0);
}

TEST_CASE("silent failure: cumulative sums along a split dim, both ways", "[silent]") {
  for (const char* pad : {"9_0", "0_9"})
    run(fmt::format("a = f32[10,2] parameter(0), @\n z = f32[] constant(0)\n ROOT r = f32[10,2] "
                    "reduce-window(a, z), window={{size=10x1 pad={}x0_0}}, to_apply=sum, @",
                    pad),
        "devices=[4,1]<=[4]", 4);
}

TEST_CASE("silent failure: the gradient of a lookup adds up repeated rows", "[silent]") {
  const std::string scatter =
      " ROOT r = f32[10,4] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, ";
  for (const char* const table : {"sharding={devices=[4,1]<=[4]}", "sharding={replicated}"})
    run("z = f32[] constant(0)\n t = f32[10,4] broadcast(z), dimensions={}\n i = s32[7] "
        "parameter(0), sharding={devices=[4]<=[4]}\n u = f32[7,4] parameter(1), "
        "sharding={devices=[4,1]<=[4]}\n" +
            scatter + table,
        "", 4);
}

TEST_CASE("silent failure: partial sums that meet whole values are summed first", "[silent]") {
  run("a = f32[4,8] parameter(0), sharding={devices=[1,4]<=[4]}\n b = f32[8,4] parameter(1), "
      "sharding={devices=[4,1]<=[4]}\n c = f32[4,4] parameter(2)\n d = f32[4,4] dot(a, b), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n s = f32[4,4] add(d, c)\n m = f32[4,4] "
      "maximum(d, c)\n p = f32[4,4] multiply(d, d)\n ROOT t = (f32[4,4], f32[4,4], f32[4,4]) "
      "tuple(s, m, p)",
      "", 4);
}

TEST_CASE("silent failure: strided and padded convolutions over a split dim", "[silent]") {
  for (const char* const window :
       {"11 size=3 stride=2 pad=1_1", "10 size=2 stride=2", "8 size=5 stride=3 pad=2_3",
        "9 size=3 stride=2 pad=0_1", "12 size=4 stride=1 pad=3_0"}) {
    const std::string text = window;
    const int64_t size = std::stoll(text.substr(0, text.find(' ')));
    const std::string rest = text.substr(text.find(' ') + 1);
    WindowDim w;
    char more[40] = {};
    std::sscanf(rest.c_str(), "size=%ld stride=%ld pad=%ld_%ld%39s", &w.size, &w.stride, &w.pad_low,
                &w.pad_high, more);
    const int64_t out = (size + w.pad_low + w.pad_high - w.size) / w.stride + 1;
    run(fmt::format("x = f32[2,{0},3] parameter(0), @\n k = f32[{1},3,4] parameter(1)\n ROOT r = "
                    "f32[2,{2},4] convolution(x, k), window={{{3}}}, dim_labels=b0f_0io->b0f, @",
                    size, w.size, out, rest),
        "devices=[1,4,1]<=[4]", 4);
  }
}

TEST_CASE("silent failure: one constant that two readers want in two layouts", "[silent]") {
  const auto r = run(
      "c = f32[4,4] constant({{1,2,3,4},{5,6,7,8},{9,10,11,12},{13,14,15,16}})\n a = f32[4,4] "
      "parameter(0), sharding={devices=[4,1]<=[4]}\n b = f32[4,4] parameter(1), "
      "sharding={devices=[1,4]<=[4]}\n x = f32[4,4] add(a, c), sharding={devices=[4,1]<=[4]}\n y = "
      "f32[4,4] multiply(b, c), sharding={devices=[1,4]<=[4]}\n ROOT t = (f32[4,4], f32[4,4]) "
      "tuple(x, y), sharding={{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}}",
      "", 4);
  CHECK(r.rematerializations == 0);
  CHECK(r.kinds.count("all-gather") == 0);
}

TEST_CASE("silent failure: the accumulator of a loop keeps the sharding of what it adds up",
          "[silent]") {
  const auto r = run(
      "x = f32[4,8,6] parameter(0), sharding={devices=[1,1,2,2]<=[2,2]T(1,0) "
      "last_tile_dim_replicate}\n g = f32[4,8,10] parameter(1), sharding={devices=[1,1,2,2]<=[4] "
      "last_tile_dim_replicate}\n i = s32[] constant(0)\n z = f32[] constant(0)\n acc = f32[6,10] "
      "broadcast(z), dimensions={}\n t = (s32[], f32[6,10], f32[4,8,6], f32[4,8,10]) tuple(i, acc, "
      "x, g)\n w = (s32[], f32[6,10], f32[4,8,6], f32[4,8,10]) while(t), condition=more, "
      "body=step\n ROOT r = f32[6,10] get-tuple-element(w), index=1",
      "", 4, R"(
more { p = (s32[], f32[6,10], f32[4,8,6], f32[4,8,10]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(4)
 ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[6,10], f32[4,8,6], f32[4,8,10]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 a = f32[6,10] get-tuple-element(p), index=1
 x = f32[4,8,6] get-tuple-element(p), index=2
 g = f32[4,8,10] get-tuple-element(p), index=3
 o = s32[] constant(0)
 xi = f32[1,8,6] dynamic-slice(x, i, o, o), dynamic_slice_sizes={1,8,6}
 gi = f32[1,8,10] dynamic-slice(g, i, o, o), dynamic_slice_sizes={1,8,10}
 xr = f32[8,6] reshape(xi)
 gr = f32[8,10] reshape(gi)
 d = f32[6,10] dot(xr, gr), lhs_contracting_dims={0}, rhs_contracting_dims={0}
 grown = f32[6,10] add(a, d)
 one = s32[] constant(1)
 j = s32[] add(i, one)
 ROOT t = (s32[], f32[6,10], f32[4,8,6], f32[4,8,10]) tuple(j, grown, x, g) }
)");
  CHECK(sharding_of(r.compiled, "grown") == "{devices=[2,2]<=[2,2]T(1,0)}");
  CHECK(r.kinds.count("all-gather") <= 1);  // the result alone, which the signature wants whole
}

TEST_CASE("silent failure: random bits do not depend on their sharding", "[silent]") {
  for (const char* const s : {"devices=[4,1]<=[4]", "devices=[2,2]<=[4]", "replicated"})
    run("k = u64[2] parameter(0)\n g = (u64[2], u32[10,6]) rng-bit-generator(k), "
        "algorithm=rng_three_fry\n ROOT r = u32[10,6] get-tuple-element(g), index=1, @",
        s, 4);
}

TEST_CASE("silent failure: a sharding that cannot be is refused with names and numbers",
          "[silent]") {
  const auto module = parse_module(
      "HloModule m\nENTRY e { a = f32[8,4] parameter(0), sharding={devices=[8,1]<=[8]}, "
      "metadata={source_file=\"model.py\" source_line=12}\n ROOT r = f32[8,4] negate(a) }");
  PipelineOptions options;
  options.num_devices = 4;
  CHECK_THROWS_WITH(run_pipeline(*module, options),
                    Catch::Contains("a (model.py:12)") && Catch::Contains("device 7") &&
                        Catch::Contains("4 devices") && Catch::Contains("at least 8"));
}

}  // namespace silent_failures_test
