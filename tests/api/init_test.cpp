#include <cmath>

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

struct Spread {
  double mean = 0, variance = 0, least = 0, most = 0;
};
Spread factor_sharding_of(const Array& array) {
  Spread s;
  const std::vector<double> x = values(array);
  for (const double v : x) s.mean += v / double(x.size());
  for (const double v : x) s.variance += (v - s.mean) * (v - s.mean) / double(x.size());
  s.least = *std::min_element(x.begin(), x.end());
  s.most = *std::max_element(x.begin(), x.end());
  return s;
}

// Whether 16,384 numbers have mean 0 and this variance, and none is beyond `limit`.
void check_spread(const Array& array, double variance, double limit) {
  REQUIRE(array.size() >= 16384);
  const Spread s = factor_sharding_of(array);
  CHECK(s.mean == Approx(0).margin(5 * std::sqrt(variance / 16384)));
  CHECK(s.variance == Approx(variance).epsilon(0.05));
  CHECK(s.most <= limit);
  CHECK(s.least >= -limit);
  CHECK(s.most > 0.95 * limit);
}

}  // namespace

TEST_CASE("initial values have the variance of their papers", "[api]") {
  const Shape matrix(DType::f32, {64, 256}), kernel(DType::f64, {3, 3, 32, 64});
  constexpr double cut = 2 / 0.87962566103423978;  // two deviations before the cut
  const auto normal = [&](const Array& array, double variance) {
    check_spread(array, variance, cut * std::sqrt(variance));
  };
  check_spread(glorot_uniform(matrix, 1), 2. / (64 + 256), std::sqrt(6. / (64 + 256)));
  check_spread(glorot_uniform(kernel, 1), 2. / (9 * (32 + 64)), std::sqrt(6. / (9 * (32 + 64))));
  check_spread(he_uniform(matrix, 2), 2. / 64, std::sqrt(6. / 64));
  normal(glorot_normal(matrix, 3), 2. / (64 + 256));
  normal(he_normal(kernel, 4), 2. / (9 * 32));
  normal(lecun_normal(matrix, 5), 1. / 64);
  // [layers, in, heads, dim]
  const Shape heads(DType::f32, {4, 16, 4, 64});
  normal(lecun_normal(heads, 6, {.in_axes = {1}, .out_axes = {-2, -1}, .batch_axes = {0}}),
         1. / 16);
}

TEST_CASE("truncated_normal is that of the distribution function", "[api]") {
  const Array x =
      truncated_normal({DType::f64, {20000}}, 7, {.stddev = 3, .lower = -0.5, .upper = 4});
  const auto below = [](double v) { return std::erfc(-v / std::sqrt(2.)) / 2; };
  for (const double at : {-0.4, 0., 0.5, 1., 2., 3.}) {
    double seen = 0;
    for (const double v : values(x)) seen += v <= 3 * at;
    CHECK(seen / 20000 ==
          Approx((below(at) - below(-0.5)) / (below(4) - below(-0.5))).margin(0.015));
  }
  CHECK(factor_sharding_of(x).least >= -1.5);
  // Far out, where the function is flat.
  const Spread tail =
      factor_sharding_of(truncated_normal({DType::f64, {999}}, 8, {.lower = 4, .upper = 9}));
  CHECK(tail.least >= 4);
  CHECK(tail.mean == Approx(4.2256).epsilon(0.01));
}

TEST_CASE("initial values are a function of the seed and the stream", "[api]") {
  const Shape shape(DType::f32, {5, 7});
  CHECK(values(he_normal(shape, 1)) == values(he_normal(shape, 1)));
  CHECK(values(he_normal(shape, 1)) != values(he_normal(shape, 2)));
  CHECK(values(he_normal(shape, 1)) != values(he_normal(shape, 1, {.stream = 1})));
  CHECK(values(orthogonal(shape, 1)) != values(orthogonal(shape, 1, {.stream = 1})));
}

TEST_CASE("orthogonal has rows or columns at right angles", "[api]") {
  for (const Dims& dims : {Dims{9, 4}, Dims{4, 9}, Dims{3, 2, 4}, Dims{5, 5}}) {
    const Array q = orthogonal({DType::f64, dims}, 3, {.scale = 2});
    const int64_t columns = dims.back(), rows = q.size() / columns;
    const bool wide = rows < columns;
    const int64_t count = wide ? rows : columns, length = wide ? columns : rows;
    const auto at = [&](int64_t vector, int64_t place) {
      return wide ? q.at(vector * columns + place) : q.at(place * columns + vector);
    };
    for (int64_t a = 0; a < count; ++a)
      for (int64_t b = 0; b <= a; ++b) {
        double product = 0;
        for (int64_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        CHECK(product == Approx(a == b ? 4 : 0).margin(1e-12));
      }
  }
  CHECK(orthogonal({DType::f32, {0, 3}}, 1).size() == 0);
}

TEST_CASE("initialisers name wrong shapes, dims and options", "[api][errors]") {
  const Shape line(DType::f32, {4}), square(DType::f32, {3, 3}), counts(DType::s32, {3, 3});
  GSPMD_REQUIRE_ERROR("glorot_uniform: f32[4] has fewer than 2 dims", glorot_uniform(line, 1));
  GSPMD_REQUIRE_ERROR("he_normal: numbers of type s32 are not made; use a floating type",
                      he_normal(counts, 1));
  GSPMD_REQUIRE_ERROR("he_uniform: axis 2 is outside f32[3,3]; give -2 to 1",
                      he_uniform(square, 1, {.in_axes = {2}}));
  GSPMD_REQUIRE_ERROR("lecun_normal: axis 1 of f32[3,3] is named twice",
                      lecun_normal(square, 1, {.in_axes = {1}}));
  GSPMD_REQUIRE_ERROR("glorot_normal: stream -1 is wrong; give 0 to 4294967295",
                      glorot_normal(square, 1, {.stream = -1}));
  GSPMD_REQUIRE_ERROR("truncated_normal: lower 2 and upper 1 are wrong; give lower < upper",
                      truncated_normal(line, 1, {.lower = 2, .upper = 1}));
  GSPMD_REQUIRE_ERROR("truncated_normal: stddev -1 is wrong; give 0 or more",
                      truncated_normal(line, 1, {.stddev = -1}));
  GSPMD_REQUIRE_ERROR("orthogonal: f32[4] has fewer than 2 dims", orthogonal(line, 1));
  GSPMD_REQUIRE_ERROR("orthogonal: scale inf is wrong", orthogonal(square, 1, {.scale = INFINITY}));
}
