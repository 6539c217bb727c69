// Windows by computations that are no op.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "kernels/run_kernel.h"
#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_called_window_test {
namespace {

struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
};

// Of pairs, in an order that shows: no law holds. The integers wrap.
std::string pairs(const std::string& type) {
  return fmt::format(R"(f {{
  a = {0}[] parameter(0)
  i = s16[] parameter(1)
  b = {0}[] parameter(2)
  j = s16[] parameter(3)
  half = {0}[] constant(0.5)
  c = {0}[] multiply(a, half)
  d = {0}[] add(c, b)
  n = s16[] multiply(i, j)
  m = s16[] subtract(n, i)
  ROOT r = ({0}[], s16[]) tuple(d, m)
}}
)",
                     type);
}

// The same, of what calls another computation: no loop.
std::string nested(const std::string& type) {
  return fmt::format(R"(h {{
  a = {0}[] parameter(0)
  half = {0}[] constant(0.5)
  ROOT c = {0}[] multiply(a, half)
}}
f {{
  a = {0}[] parameter(0)
  i = s16[] parameter(1)
  b = {0}[] parameter(2)
  j = s16[] parameter(3)
  c = {0}[] call(a), to_apply=h
  d = {0}[] add(c, b)
  m = s16[] subtract(j, i)
  ROOT r = ({0}[], s16[]) tuple(d, m)
}}
)",
                     type);
}

std::string windowed(const std::string& combiner, DType type, const Dims& dims,
                     const std::string& window, const Dims& result) {
  return fmt::format(R"(HloModule m
{}ENTRY e {{
  x = {} parameter(0)
  y = {} parameter(1)
  v = {}[] constant(1)
  w = s16[] constant(3)
  ROOT r = ({}, {}) reduce-window(x, y, v, w), window={{{}}}, to_apply=f
}}
)",
                     combiner, to_string(Shape(type, dims)), to_string(Shape(DType::s16, dims)),
                     dtype_name(type), to_string(Shape(type, result)),
                     to_string(Shape(DType::s16, result)), window);
}

std::vector<Array> arguments(DType type, const Dims& dims, int64_t seed) {
  return {special_values(Shape(type, dims), unsigned(seed), seed % 2 == 0),
          special_values(Shape(DType::s16, dims), unsigned(seed), false)};
}

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16};

}  // namespace

TEST_CASE("fast windows by any computation: the bits of the reference", "[window]") {
  for (int64_t seed = 1; seed <= random_load(150); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType type = kTypes[random.below(3)];
    const int64_t rank = 1 + random.below(3);
    Dims dims, result;
    std::string sizes, strides, padding, base, apart;
    int64_t results = 1;
    for (int64_t d = 0; d < rank; ++d) {
      const bool plain = random.below(3) == 0;
      const int64_t n = 1 + random.below(rank == 1 ? 300 : 20);
      const int64_t size = plain ? 1 : 1 + random.below(4), step = plain ? 1 : 1 + random.below(3);
      const int64_t low = plain ? 0 : random.below(5) - 1, high = plain ? 0 : random.below(4);
      const int64_t spread = plain ? 1 : 1 + random.below(3), gap = 1 + random.below(2);
      const int64_t whole = (n - 1) * spread + 1 + low + high, reach = (size - 1) * gap + 1;
      const char* const by = d == 0 ? "" : "x";
      dims.push_back(n);
      result.push_back(whole < reach ? 0 : (whole - reach) / step + 1);
      results *= result.back();
      sizes += fmt::format("{}{}", by, size);
      strides += fmt::format("{}{}", by, step);
      padding += fmt::format("{}{}_{}", by, low, high);
      base += fmt::format("{}{}", by, spread);
      apart += fmt::format("{}{}", by, gap);
    }
    if (results < 16) continue;
    const std::string name(dtype_name(type));
    expect_fast(windowed(random.below(4) == 0 ? nested(name) : pairs(name), type, dims,
                         fmt::format("size={} stride={} pad={} lhs_dilate={} rhs_dilate={}", sizes,
                                     strides, padding, base, apart),
                         result),
                arguments(type, dims, seed));
  }
}

TEST_CASE("fast cumulative windows by any computation: the bits of the reference", "[window]") {
  static const Dims kDims[] = {{40, 33}, {33, 40}, {3, 17, 6}, {300, 5}, {150, 1}, {16, 200}};
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType type = kTypes[random.below(3)];
    const Dims& dims = kDims[random.below(6)];
    const auto along = size_t(random.below(int64_t(dims.size())));
    if (Shape(type, dims).elements_count() / dims[along] < 16) continue;
    std::string sizes, padding;
    const bool reverse = random.below(3) == 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t n = d == along ? dims[d] : 1;
      sizes += fmt::format("{}{}", d == 0 ? "" : "x", n);
      padding +=
          fmt::format("{}{}_{}", d == 0 ? "" : "x", reverse ? 0 : n - 1, reverse ? n - 1 : 0);
    }
    const std::string name(dtype_name(type));
    expect_fast(windowed(random.below(4) == 0 ? nested(name) : pairs(name), type, dims,
                         fmt::format("size={} pad={}", sizes, padding), dims),
                arguments(type, dims, seed));
  }
}

// What no element meets takes no time: windows far larger than what they are laid over.
TEST_CASE("fast windows by any computation: of large ones only places that meet elements",
          "[window]") {
  expect_fast(windowed(pairs("f32"), DType::f32, {8, 30},
                       "size=1000000000x1 pad=499999996_499999998x0_0", {3, 30}),
              arguments(DType::f32, {8, 30}, 3));
  const auto module = parse_module(
      windowed(pairs("f32"), DType::f32, {8, 30},
               "size=1000000000x1 pad=499996500_499996501x0_0 lhs_dilate=1000x1", {3, 30}));
  const Node& root = *module->entry()->root();
  CHECK_FALSE(root.op().lower(root).run);  // one place in a thousand meets one
}

// As JAX writes cumlogsumexp.
TEST_CASE("fast cumulative sums of logarithms: those of plain loops", "[window]") {
  const int64_t rows = 37, n = 90;
  const auto module = parse_module(fmt::format(R"(HloModule m
f {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  d = f32[] subtract(a, b)
  s = f32[] abs(d)
  t = f32[] negate(s)
  e = f32[] exponential(t)
  l = f32[] log-plus-one(e)
  r = f32[] add(m, l)
  q = pred[] compare(d, d), direction=NE
  p = f32[] add(a, b)
  ROOT k = f32[] select(q, p, r)
}}
ENTRY e {{
  x = f32[{0},{1}] parameter(0)
  z = f32[] constant(-inf)
  ROOT r = f32[{0},{1}] reduce-window(x, z), window={{size=1x{1} pad=0_0x{2}_0}}, to_apply=f
}}
)",
                                               rows, n, n - 1));
  Array x(Shape(DType::f32, {rows, n}));
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, double((i * 7919) % 401 - 200) / 16);
  x.set(3, -INFINITY);
  x.set(2 * n + 40, NAN);
  x.set(4 * n, INFINITY);
  const Node& root = *module->entry()->root();
  const PreparedKernel kernel = root.op().lower(root);
  REQUIRE(kernel.run);
  const Array initial = Array::full(Shape(DType::f32, {}), -INFINITY);
  const Array got = run_kernel(kernel, {x, initial}, {root.shape})[0];
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += std::exp(x.at(r * n + i));
      const double want = std::log(sum), is = got.at(r * n + i);
      INFO(r << ", " << i << ": " << is << ", not " << want);
      REQUIRE((is == want || (std::isnan(is) && std::isnan(want)) ||
               std::abs(is - want) <= 2e-6 * std::max(1.0, std::abs(want)) * std::sqrt(double(n))));
    }
  }
}

}  // namespace gspmd::testing::fast_called_window_test
