#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

bool exact(const std::string& body) { return is_exact(*parse_module(with_entry(body)), {}); }

}  // namespace

TEST_CASE("integers within the bound of the type are exact", "[exact]") {
  CHECK(exact("a = f32[2] constant({3,-4})\nROOT r = f32[2] add(a, a)"));
  CHECK_FALSE(exact("a = f32[2] constant({3.5,-4})\nROOT r = f32[2] add(a, a)"));
  CHECK(exact("a = f32[1] constant({8388608})\nROOT r = f32[1] add(a, a)"));
  CHECK_FALSE(exact("a = f32[1] constant({8388609})\nROOT r = f32[1] add(a, a)"));
  CHECK(exact("a = f64[1] constant({8388609})\nROOT r = f64[1] add(a, a)"));
  CHECK_FALSE(exact("a = bf16[1] constant({130})\nROOT r = bf16[1] add(a, a)"));
  CHECK_FALSE(exact("a = f16[1] constant({64})\nROOT r = f16[1] multiply(a, a)"));
  CHECK(exact("a = f32[1] constant({64})\nROOT r = f32[1] multiply(a, a)"));
}

TEST_CASE("sums are bounded by their magnitudes, not by what cancels", "[exact]") {
  const std::string sum =
      "z = f32[] constant(0)\nROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=sum";
  CHECK(exact("a = f32[3] constant({10000000,-6000000,1})\n" + sum) == true);
  CHECK(exact("a = f32[3] constant({10000000,-10000000,1})\n" + sum) == false);
  const std::string dot =
      "ROOT r = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
  CHECK(exact("a = f32[2] constant({4000,4000})\nb = f32[2] constant({1000,-1000})\n" + dot));
  CHECK_FALSE(exact("a = f32[2] constant({4000,4000})\nb = f32[2] constant({4000,-4000})\n" + dot));
  CHECK_FALSE(
      exact("a = f32[3] constant({10000,10000,0})\nz = f32[] constant(1)\n"
            "ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=product"));
}

TEST_CASE("sums of windows are bounded by their magnitudes too", "[exact]") {
  const std::string convolve =
      "ROOT r = f32[1,1,1] convolution(a, b), window={size=2}, dim_labels=b0f_0io->b0f";
  const std::string big = "a = f32[1,2,1] constant({{{4000},{4000}}})\n";
  CHECK(exact(big + "b = f32[2,1,1] constant({{{1000}},{{-1000}}})\n" + convolve));
  CHECK_FALSE(exact(big + "b = f32[2,1,1] constant({{{4000}},{{-4000}}})\n" + convolve));
  const std::string pool =
      "z = f32[] constant(0)\nROOT r = f32[1] reduce-window(a, z), window={size=3}, to_apply=sum";
  CHECK(exact("a = f32[3] constant({10000000,-6000000,1})\n" + pool));
  CHECK_FALSE(exact("a = f32[3] constant({10000000,-10000000,1})\n" + pool));
}

TEST_CASE("ops that choose or move are exact on any value, functions on none", "[exact]") {
  CHECK(exact("a = f32[2] constant({0.1,nan})\nROOT r = f32[2] reverse(a), dimensions={0}"));
  CHECK(exact("a = f32[2] constant({0.1,-inf})\nROOT r = f32[2] maximum(a, a)"));
  CHECK(
      exact("a = f32[2] constant({1,2})\nz = f32[] constant(-inf)\n"
            "ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=most"));
  CHECK_FALSE(exact("a = f32[2] constant({0,0})\nROOT r = f32[2] exponential(a)"));
  CHECK_FALSE(exact("a = f32[2] constant({4,2})\nROOT r = f32[2] divide(a, a)"));
  CHECK(exact(
      "a = s32[2] constant({7,2})\nb = s32[2] constant({2,0})\nROOT r = s32[2] divide(a, b)"));
  CHECK(exact("a = s32[1] constant({16777216})\nROOT r = f32[1] convert(a)"));
  CHECK_FALSE(exact("a = s32[1] constant({16777217})\nROOT r = f32[1] convert(a)"));
  CHECK_FALSE(exact("a = f32[1] constant({300})\nROOT r = s8[1] convert(a)"));
}

TEST_CASE("what happens inside of a loop or a call counts", "[exact]") {
  const auto loop = [](const char* start) {
    return fmt::format(
        "o = f32[] constant({})\nx = f32[3,4] broadcast(o), dimensions={{}}\nn = s32[] "
        "constant(0)\nt = (s32[], f32[3,4]) tuple(n, x)\nROOT w = (s32[], f32[3,4]) while(t), "
        "condition=below_ten, body=next",
        start);
  };
  CHECK(exact(loop("1")));
  CHECK_FALSE(exact(loop("0.5")));
  CHECK_FALSE(exact(loop("4000000")));
  Value result;
  CHECK(is_exact(*parse_module(with_entry(loop("3"))), {}, &result));
  CHECK(result.elements[1].array.at(0) == 48);
}

}  // namespace gspmd::testing
