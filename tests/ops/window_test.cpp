#include "ops/window/window.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "gspmd/ir/text.h"
#include "kernels/run_kernel.h"
#include "ops/evaluate_cases.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

// Every window index in turn, looked up in the dilated and padded input.
std::vector<std::pair<int64_t, int64_t>> naive_window(const WindowDim& dim, int64_t input,
                                                      int64_t position) {
  std::vector<std::pair<int64_t, int64_t>> met;
  for (int64_t w = 0; w < dim.size; ++w) {
    const int64_t at = position * dim.stride + w * dim.window_dilation - dim.pad_low;
    if (at >= 0 && at % dim.base_dilation == 0 && at / dim.base_dilation < input)
      met.emplace_back(w, at / dim.base_dilation);
  }
  return met;
}

}  // namespace

TEST_CASE("the run of a window position lists what each window index meets", "[window]") {
  std::mt19937_64 random(3);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int n = 0; n < 20000; ++n) {
    const WindowDim dim{draw(1, 7), draw(1, 4), draw(-4, 9), 0, draw(1, 6), draw(1, 6), false};
    const int64_t input = draw(0, 9), position = draw(0, 12);
    const WindowRun run = window_run(dim, input, position);
    std::vector<std::pair<int64_t, int64_t>> met;
    for (int64_t i = 0; i < run.count; ++i)
      met.emplace_back(run.window_first + i * run.window_step,
                       run.input_first + i * run.input_step);
    INFO("size " << dim.size << " stride " << dim.stride << " pad " << dim.pad_low << " base "
                 << dim.base_dilation << " window " << dim.window_dilation << " input " << input
                 << " position " << position);
    REQUIRE(met == naive_window(dim, input, position));
  }
  // Numbers of any size: no scan over the window.
  const WindowRun run = window_run({int64_t(1) << 60, 1, 0, 0, int64_t(1) << 59, 3, false}, 4, 1);
  CHECK(run.count > 0);
}

TEST_CASE("reduce-window combines each window, padding left out", "[window]") {
  const std::string a = "a = f32[6] constant({1,2,3,4,5,6})\nz = f32[] constant(0)\n";
  const std::string m =
      "a = f32[3,4] constant({{1,5,2,8},{7,3,9,4},{6,0,-1,2}})\nz = f32[] constant(-inf)\n";
  const std::vector<EvaluateCase> cases = {
      {"sums of three", a + "ROOT r = f32[4] reduce-window(a, z), window={size=3}, to_apply=sum",
       "f32[4] {6,9,12,15}"},
      {"init counts in every window",
       "a = f32[2] constant({1,2})\nz = f32[] constant(10)\nROOT r = f32[4] reduce-window(a, z), "
       "window={size=1 pad=1_1}, to_apply=sum",
       "f32[4] {10,11,12,10}"},
      {"same padding, stride",
       a + "ROOT r = f32[3] reduce-window(a, z), window={size=3 stride=2 pad=0_1}, to_apply=sum",
       "f32[3] {6,12,11}"},
      {"window dilation",
       a + "ROOT r = f32[2] reduce-window(a, z), window={size=3 rhs_dilate=2}, to_apply=sum",
       "f32[2] {9,12}"},
      {"base dilation",
       a + "ROOT r = f32[9] reduce-window(a, z), window={size=3 lhs_dilate=2}, to_apply=sum",
       "f32[9] {3,2,5,3,7,4,9,5,11}"},
      {"negative padding",
       a + "ROOT r = f32[3] reduce-window(a, z), window={size=2 pad=-1_-1}, to_apply=sum",
       "f32[3] {5,7,9}"},
      {"cumulative sum",
       a + "ROOT r = f32[6] reduce-window(a, z), window={size=6 pad=5_0}, to_apply=sum",
       "f32[6] {1,3,6,10,15,21}"},
      {"reverse cumulative sum",
       a + "ROOT r = f32[6] reduce-window(a, z), window={size=6 pad=0_5}, to_apply=sum",
       "f32[6] {21,20,18,15,11,6}"},
      {"cumulative, any computation",
       a + "ROOT r = f32[6] reduce-window(a, z), window={size=6 pad=5_0}, to_apply=half_sum",
       "f32[6] {1,2.5,4.25,6.125,8.0625,10.03125}"},
      {"maximum pooling",
       m + "ROOT r = f32[2,3] reduce-window(a, z), window={size=2x2}, to_apply=most",
       "f32[2,3] {{7,9,9},{7,9,9}}"},
      {"minimum",
       "a = s32[4] constant({3,-7,5,1})\nz = s32[] constant(2147483647)\nROOT r = s32[2] "
       "reduce-window(a, z), window={size=2 stride=2}, to_apply=sum_s32",
       "s32[2] {2147483643,-2147483643}"},
      {"where the largest is",
       m + "i = s32[3,4] constant({{0,1,2,3},{4,5,6,7},{8,9,10,11}})\nk = s32[] constant(0)\nROOT "
           "r = (f32[2,2], s32[2,2]) reduce-window(a, i, z, k), window={size=2x2 stride=1x2}, "
           "to_apply=largest_at",
       "f32[2,2] {{7,9},{7,9}} s32[2,2] {{4,6},{4,6}}"},
      {"nan",
       "a = f32[3] constant({1,nan,3})\nz = f32[] constant(-inf)\nROOT r = f32[2] reduce-window(a, "
       "z), window={size=2}, to_apply=most",
       "f32[2] {nan,nan}"},
      {"bf16 sums are rounded once",
       "a = bf16[3] constant({256,1,1})\nz = bf16[] constant(0)\nROOT r = bf16[1] reduce-window(a, "
       "z), window={size=3}, to_apply=sum_bf16",
       "bf16[1] {258}"},
      {"complex",
       "a = c64[3] constant({(1,2),(3,4),(5,6)})\nz = c64[] constant((0,1))\nROOT r = c64[2] "
       "reduce-window(a, z), window={size=2}, to_apply=sum_c64",
       "c64[2] {(4,7),(8,11)}"},
      {"8-bit floats",
       "a = f8e4m3fn[3] constant({1,2,3})\nz = f8e4m3fn[] constant(0.5)\nROOT r = f8e4m3fn[2] "
       "reduce-window(a, z), window={size=2}, to_apply=sum_f8",
       "f8e4m3fn[2] {3.5,5.5}"},
      {"no positions", a + "ROOT r = f32[0] reduce-window(a, z), window={size=7}, to_apply=sum",
       "f32[0] {}"},
      {"nothing in the windows",
       "a = f32[0] constant({})\nz = f32[] constant(7)\nROOT r = f32[3] reduce-window(a, z), "
       "window={size=1 pad=1_2}, to_apply=half_sum",
       "f32[3] {7,7,7}"},
      {"scalars",
       "a = f32[] constant(3)\nz = f32[] constant(1)\nROOT r = f32[] reduce-window(a, z), "
       "window={}, to_apply=sum",
       "f32[] 4"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("pooling kernels give the bits of the reference", "[window]") {
  const char* const bodies[] = {
      "a = f32[3,20,31,16] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[3,10,16,16] "
      "reduce-window(a, z), window={size=1x3x2x1 stride=1x2x2x1 pad=0_0x0_1x1_0x0_0}, "
      "to_apply=most",
      "a = f32[2,5,20,31] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[2,5,18,27] "
      "reduce-window(a, z), window={size=1x1x3x3 rhs_dilate=1x1x1x2}, to_apply=sum",
      "a = f32[9] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[17] reduce-window(a, z), "
      "window={size=1 lhs_dilate=2}, to_apply=least",
      "a = s32[9,2] parameter(0)\nz = s32[] parameter(1)\nROOT r = s32[6,2] reduce-window(a, z), "
      "window={size=2x1 pad=-1_-1x0_0}, to_apply=sum_s32",
      "a = f32[0,3] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[2,3] reduce-window(a, z), "
      "window={size=1x1 pad=1_1x0_0}, to_apply=sum",
      "a = f32[3,20,31,16] parameter(0)\ns = f32[3,10,16,16] parameter(1)\nz = f32[] "
      "parameter(2)\nROOT r = f32[3,20,31,16] select-and-scatter(a, s, z), window={size=1x3x2x1 "
      "stride=1x2x2x1 pad=0_0x0_1x1_0x0_0}, select=at_least, scatter=sum",
      "a = f32[4,300] parameter(0)\ns = f32[2,300] parameter(1)\nz = f32[] parameter(2)\nROOT r = "
      "f32[4,300] select-and-scatter(a, s, z), window={size=2x1 stride=2x1}, select=at_least, "
      "scatter=sum",
      "a = f32[40,9,300] parameter(0)\ns = f32[39,8,300] parameter(1)\nz = f32[] "
      "parameter(2)\nROOT r = f32[40,9,300] select-and-scatter(a, s, z), window={size=1x2x1 "
      "pad=0_-1x0_0x0_0}, select=at_least, scatter=sum",
      "a = f32[9,5] parameter(0)\ns = f32[8,4] parameter(1)\nz = f32[] parameter(2)\nROOT r = "
      "f32[9,5] select-and-scatter(a, s, z), window={size=2x2}, select=at_least, scatter=sum",
  };
  for (const char* const body : bodies) {
    INFO(body);
    const auto module = parse_module(with_entry(body));
    const Node& node = *module->entry()->root();
    const std::vector<Value> arguments =
        sample_arguments({Opcode::reduce_window, "", body, -9, 9}, *module, Values::integers, 3);
    const PreparedKernel kernel = node.op().lower(node);
    REQUIRE(kernel.run);
    std::vector<Array> operands;
    for (const Value& argument : arguments) operands.push_back(argument.array);
    const Array got = run_kernel(kernel, operands, {node.shape})[0];
    CHECK(bitwise_equal(got, evaluate(*module, arguments).array));
  }
}

TEST_CASE("reduce-window runs the computation of a cumulative logarithm of sums", "[window]") {
  const std::string module = R"(HloModule m
add_exp {
a = f32[] parameter(0)
b = f32[] parameter(1)
m = f32[] maximum(a, b)
d = f32[] subtract(a, b)
n = pred[] compare(d, d), direction=NE
s = f32[] add(a, b)
p = f32[] abs(d)
q = f32[] negate(p)
e = f32[] exponential(q)
l = f32[] log-plus-one(e)
t = f32[] add(m, l)
ROOT r = f32[] select(n, s, t)
}
ENTRY main {
a = f32[5] constant({0.5,-1,2,30,29.5})
z = f32[] constant(-inf)
ROOT r = f32[5] reduce-window(a, z), window={size=5 pad=4_0}, to_apply=add_exp
})";
  const Array result = evaluate(*parse_module(module), {}).array;
  const double expected[] = {0.5, 0.7014132738113403, 2.2413113117218018, 30, 30.474077224731445};
  for (int64_t i = 0; i < 5; ++i) CHECK(result.at(i) == Approx(expected[i]).epsilon(1e-6));
}

TEST_CASE("select-and-scatter adds where the window keeps an element", "[window]") {
  const std::string zero = "z = f32[] constant(0)\n";
  const std::vector<EvaluateCase> cases = {
      {"pairs",
       "a = f32[6] constant({1,5,2,2,9,3})\ns = f32[3] constant({10,20,30})\n" + zero +
           "ROOT r = f32[6] select-and-scatter(a, s, z), window={size=2 stride=2}, "
           "select=at_least, scatter=sum",
       "f32[6] {0,10,20,0,30,0}"},
      {"overlapping",
       "a = f32[5] constant({1,5,2,6,0})\ns = f32[3] constant({1,2,4})\n" + zero +
           "ROOT r = f32[5] select-and-scatter(a, s, z), window={size=3}, select=at_least, "
           "scatter=sum",
       "f32[5] {0,1,0,6,0}"},
      {"init is there before",
       "a = f32[2] constant({1,5})\ns = f32[1] constant({3})\nz = f32[] constant(100)\nROOT r = "
       "f32[2] select-and-scatter(a, s, z), window={size=2}, select=at_least, scatter=sum",
       "f32[2] {100,103}"},
      {"padding is never kept",
       "a = f32[3] constant({-1,-5,-2})\ns = f32[2] constant({1,2})\n" + zero +
           "ROOT r = f32[3] select-and-scatter(a, s, z), window={size=2 stride=2 pad=1_0}, "
           "select=at_least, scatter=sum",
       "f32[3] {1,0,2}"},
      {"two dims",
       "a = f32[2,4] constant({{1,2,8,3},{4,0,7,9}})\ns = f32[1,2] constant({{5,6}})\n" + zero +
           "ROOT r = f32[2,4] select-and-scatter(a, s, z), window={size=2x2 stride=2x2}, "
           "select=at_least, scatter=sum",
       "f32[2,4] {{0,0,0,0},{5,0,0,6}}"},
      {"smallest, last of equal ones",
       "a = f32[4] constant({3,1,1,2})\ns = f32[1] constant({5})\n" + zero +
           "ROOT r = f32[4] select-and-scatter(a, s, z), window={size=4}, select=less, scatter=sum",
       "f32[4] {0,0,5,0}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("windows that cannot be are refused with their numbers", "[window]") {
  const std::string a = "a = f32[6] constant({1,2,3,4,5,6})\nz = f32[] constant(0)\n";
  struct Wrong {
    std::string body, message;
  };
  const std::vector<Wrong> cases = {
      {a + "ROOT r = f32[6] reduce-window(a, z), window={size=1x1}, to_apply=sum",
       "the window has 2 dims, it slides over 1 dims"},
      {a + "ROOT r = f32[6] reduce-window(a, z), window={size=0}, to_apply=sum",
       "size of window dim 0 is 0"},
      {a + "ROOT r = f32[6] reduce-window(a, z), window={size=1 stride=0}, to_apply=sum",
       "stride of window dim 0 is 0"},
      {a + "ROOT r = f32[6] reduce-window(a, z), window={size=1 pad=-4_-3}, to_apply=sum",
       "takes more than the 6 elements"},
      {a + "ROOT r = f32[6] reduce-window(a, a, z), window={size=1}, to_apply=sum",
       "n inputs and then n initial values"},
      {a + "s = f32[5] constant({1,2,3,4,5})\nROOT r = f32[6] select-and-scatter(a, s, z), "
           "window={size=1}, select=at_least, scatter=sum",
       "the window has {6} positions"},
      {a + "s = f32[3] constant({1,2,3})\nROOT r = f32[6] select-and-scatter(a, s, z), "
           "window={size=2 stride=2}, select=sum, scatter=sum",
       "pred[] is"},
  };
  for (const Wrong& wrong : cases) {
    INFO(wrong.body);
    CHECK_THAT(error_of(wrong.body), Catch::Contains(wrong.message));
  }
}

}  // namespace gspmd::testing
