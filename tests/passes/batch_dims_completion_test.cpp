// Completion and partitioning carry batch dims through ops on matrices, choices of elements and
// convolutions of groups.

#include <catch2/catch.hpp>

#include "passes/propagate_check.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

TEST_CASE("batch dims go through cholesky and triangular-solve, matrix dims do not") {
  const std::string split = "{devices=[4,1,1]<=[4]}";
  const std::string cholesky =
      "c = f32[8,4,4] cholesky(a), lower=true\nROOT out = f32[8,4,4] copy(c)";
  CHECK(completes("a = f32[8,4,4] parameter(0), sharding=" + split + "\n" + cholesky, "c") ==
        split);
  CHECK(completes("a = f32[8,4,4] parameter(0), sharding={devices=[1,4,1]<=[4]}\n" + cholesky,
                  "c") == "none");
  const auto solve = [](const std::string& of_a, const std::string& of_b) {
    return "a0 = f32[8,4,4] parameter(0)\na = f32[8,4,4] copy(a0)" + of_a +
           "\nb0 = f32[8,4,6] parameter(1)\nb = f32[8,4,6] copy(b0)" + of_b +
           "\ns = f32[8,4,6] triangular-solve(a, b), left_side=true, lower=true, "
           "transpose_a=NO_TRANSPOSE\nROOT out = f32[8,4,6] copy(s)";
  };
  CHECK(completes(solve(", sharding=" + split, ""), "s") == split);
  CHECK(completes(solve(", sharding=" + split, ""), "b") == split);
  CHECK(completes(solve("", ", sharding=" + split), "a") == split);
  // Right-hand sides are a loop that the matrix does not have.
  const std::string sides = "{devices=[1,1,4]<=[4]}";
  CHECK(completes(solve("", ", sharding=" + sides), "s") == sides);
  CHECK(completes(solve("", ", sharding=" + sides), "a") == "{replicated}");
}

TEST_CASE("batch dims go through topk") {
  const std::string split = "{devices=[4,1]<=[4]}";
  const std::string topk =
      "t = (f32[8,3], s32[8,3]) topk(a), k=3, largest=true\nv = f32[8,3] get-tuple-element(t), "
      "index=0\ni = s32[8,3] get-tuple-element(t), index=1\n"
      "ROOT out = (f32[8,3], s32[8,3]) tuple(v, i)";
  CHECK(completes("a = f32[8,9] parameter(0), sharding=" + split + "\n" + topk, "v") == split);
  CHECK(completes("a = f32[8,9] parameter(0), sharding=" + split + "\n" + topk, "i") == split);
}

TEST_CASE("feature groups go through a convolution whole") {
  const auto convolution = [](const std::string& layout, int groups) {
    return fmt::format(
        "x = f32[4,6,8] parameter(0), sharding={}\nw = f32[3,{},8] parameter(1)\nc = f32[4,6,8] "
        "convolution(x, w), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f, "
        "feature_group_count={}\nROOT out = f32[4,6,8] copy(c)",
        layout, 8 / groups, groups);
  };
  const std::string features = "{devices=[1,1,4]<=[4]}";
  CHECK(completes(convolution(features, 8), "c") == features);
  CHECK(completes(convolution(features, 4), "c") == features);
  CHECK(completes(convolution(features, 2), "c") == "none");
}

TEST_CASE("split batch dims of these cost nothing and change nothing") {
  const char* const bodies[] = {
      "a = f32[8,4,4] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
      "ROOT c = f32[8,4,4] cholesky(a), lower=true, sharding={devices=[4,1,1]<=[4]}",
      "a = f32[8,4,4] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
      "b = f32[8,4,6] parameter(1), sharding={devices=[4,1,1]<=[4]}\n"
      "s = f32[8,4,6] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true, "
      "transpose_a=NO_TRANSPOSE\nROOT r = f32[8,4,6] copy(s), sharding={devices=[4,1,1]<=[4]}",
      "a = f32[8,9] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "t = (f32[8,3], s32[8,3]) topk(a), k=3, largest=true\n"
      "v = f32[8,3] get-tuple-element(t), index=0\n"
      "ROOT r = f32[8,3] copy(v), sharding={devices=[4,1]<=[4]}",
      "x = f32[4,6,8] parameter(0), sharding={devices=[1,1,4]<=[4]}\n"
      "w = f32[3,1,8] parameter(1), sharding={devices=[1,1,4]<=[4]}\n"
      "c = f32[4,6,8] convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, "
      "feature_group_count=8\nROOT r = f32[4,6,8] copy(c), sharding={devices=[1,1,4]<=[4]}"};
  for (const char* body : bodies) {
    INFO(body);
    const auto module =
        parse_module(fmt::format("HloModule m, num_partitions=4\nENTRY main {{\n{}\n}}\n", body));
    PipelineOptions options;
    options.num_devices = 4;
    CHECK(collectives(run_pipeline(*module, options)).empty());
    CHECK(difference_when_partitioned(*module, 4, 1).empty());
  }
}
