// Inverse and hyperbolic functions, which no loop has.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::fast_functions_test {
namespace {

// Any bits, so that all sizes come, and numbers between -1 and 1 and around them.
Array any_floats(DType dtype, int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  Array values(dtype, {n});
  for (std::byte& byte : values.bytes()) byte = std::byte(random() & 0xff);
  for (int64_t i = 0; i < n; i += 2) {
    const double x = (double(random()) * 0x1p-32 - 0.5) * 2;
    values.set(i, i % 4 == 0 ? x : i % 8 == 2 ? 1 + 90 * std::abs(x) : 90 * x);
  }
  constexpr double kSpecial[] = {0, -0.0, 1, -1, 88, -88, 89.5, 1e-30, -1e-40, INFINITY, -INFINITY};
  for (size_t i = 0; i < std::size(kSpecial) && int64_t(i) < n; ++i)
    values.set(int64_t(i), kSpecial[i]);
  return values;
}

}  // namespace

TEST_CASE("fast inverse and hyperbolic functions: the bits of the reference", "[elementwise]") {
  for (const char* op : {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"})
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const int64_t n : {int64_t{1}, int64_t{11}, int64_t{300}, 4000 * random_load(100)}) {
        const std::string shape = to_string(Shape(type, {n}));
        INFO(op << " of " << shape);
        testing::expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {0} parameter(0)\nROOT r = "
                                         "{0} {1}(x)\n}}\n",
                                         shape, op),
                             {any_floats(type, n, unsigned(n))});
      }
}

// Bytes and half bytes are no floats that vectors read.
TEST_CASE("fast inverse and hyperbolic functions: other types are left to the evaluator",
          "[elementwise]") {
  for (const DType type : {DType::f64, DType::f8e4m3fn, DType::f8e5m2, DType::f4e2m1fn}) {
    const auto module = parse_module(
        fmt::format("HloModule m\nENTRY e {{\nx = {0} parameter(0)\nROOT r = {0} sinh(x)\n}}\n",
                    to_string(Shape(type, {64}))));
    const Node& root = *module->entry()->root();
    INFO(dtype_name(type));
    CHECK_FALSE(root.op().lower(root).run);
  }
}

}  // namespace gspmd::fast_functions_test
