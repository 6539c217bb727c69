// Distributions beyond bits, uniform and normal numbers: moments, ends, and no mesh changes them.
#include <algorithm>
#include <array>
#include <cmath>

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

struct Moments {
  double mean = 0, variance = 0, least = INFINITY, greatest = -INFINITY;
};

Moments moments_of(const Array& x) {
  Moments m;
  for (const double v : values(x)) {
    m.mean += v / double(x.size());
    m.least = std::min(m.least, v);
    m.greatest = std::max(m.greatest, v);
  }
  for (const double v : values(x)) m.variance += (v - m.mean) * (v - m.mean) / double(x.size());
  return m;
}

}  // namespace

TEST_CASE("distributions have their means, variances and ends", "[api]") {
  constexpr int64_t kMany = 20000;
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(dtype_name(dtype));
    const RandomOptions options{.dtype = dtype, .stream = 5};
    const Moments cut =
        moments_of(run([&] { return random_truncated_normal(7, -1, 2, {kMany}, options); }));
    CHECK(cut.least >= -1);
    CHECK(cut.greatest <= 2);
    CHECK(cut.mean == Approx(0.2296).margin(0.02));  // scipy.stats.truncnorm(-1, 2)
    CHECK(cut.variance == Approx(0.5159).margin(0.02));
    const Moments waits = moments_of(run([&] { return random_exponential(7, {kMany}, options); }));
    CHECK(waits.least >= 0);
    CHECK(waits.mean == Approx(1).margin(0.03));
    CHECK(waits.variance == Approx(1).margin(0.08));
    const Moments gumbel = moments_of(run([&] { return random_gumbel(7, {kMany}, options); }));
    CHECK(gumbel.mean == Approx(0.5772).margin(0.03));
    CHECK(gumbel.variance == Approx(1.6449).margin(0.08));
    CHECK(std::isfinite(gumbel.greatest));
  }
}

TEST_CASE("bernoulli, categorical and dropout draw with the probabilities given", "[api]") {
  const Array p = Array::of<float>({3}, {0.f, 0.25f, 1.f});
  const Array drawn = run([&](Tensor t) { return random_bernoulli(3, t, {8000, 3}); }, p);
  REQUIRE(drawn.dtype() == DType::pred);
  std::array<int, 3> counts{};
  for (int64_t i = 0; i < drawn.size(); ++i) counts[size_t(i % 3)] += drawn.at(i) != 0;
  CHECK(counts[0] == 0);
  CHECK(counts[1] == Approx(2000).margin(160));
  CHECK(counts[2] == 8000);

  const Array logits = Array::of<double>({2}, {std::log(0.2), std::log(0.8)});
  const Array places = run(
      [](Tensor t) {
        return random_categorical(3, broadcast_to(t, {8000, 2}));
      },
      logits);
  CHECK(places.dtype() == DType::s32);
  CHECK(moments_of(places).mean == Approx(0.8).margin(0.02));

  const Array kept =
      run([](Tensor t) { return dropout(3, t, 0.25); }, Array::full({DType::f32, {8000}}, 3));
  double zeros = 0;
  for (const double v : values(kept)) {
    CHECK((v == 0 || v == 4));
    zeros += v == 0;
  }
  CHECK(zeros / 8000 == Approx(0.25).margin(0.02));
}

TEST_CASE("random integers lie in their range, and a permutation has each number once", "[api]") {
  const Array numbers = run([] { return random_randint(1, {6000}, -3, 3); });
  std::array<int, 6> counts{};
  for (const double v : values(numbers)) {
    REQUIRE((v >= -3 && v < 3));
    ++counts[size_t(v + 3)];
  }
  for (const int count : counts) CHECK(std::abs(count - 1000) < 130);
  CHECK(run([] { return random_randint(1, {4}, 250, 256, {.dtype = DType::u8}); }).dtype() ==
        DType::u8);

  std::vector<double> order = values(run([] { return random_permutation(2, 100); }));
  CHECK(!std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int i = 0; i < 100; ++i) CHECK(order[size_t(i)] == i);
}

TEST_CASE("no distribution depends on the mesh", "[api]") {
  const Array seed = Array::scalar<int32_t>(11);
  const Array x = random_array({DType::f32, {7, 5}}, 1, 0.1, 0.9);
  const auto make = [](const Mesh& mesh) {
    return [mesh](Tensor s, Tensor p) {
      const auto cut = [&](Tensor t) { return mesh_split(t, mesh, {"a", "b"}); };
      return std::vector<Tensor>{cut(random_truncated_normal(s, -1, 1, {7, 5})),
                                 cut(random_exponential(s, {7, 5})),
                                 cut(random_gumbel(s, {7, 5})),
                                 cut(random_bernoulli(s, p, {7, 5})),
                                 cut(random_randint(s, {7, 5}, 0, 9)),
                                 mesh_split(random_permutation(s, 7), mesh, {"a"}),
                                 mesh_split(random_categorical(s, cut(p)), mesh, {"a"}),
                                 dropout(s, cut(p), 0.5)};
    };
  };
  const Expectation same = expect_equal_on_meshes(
      make, {Mesh{{"a", 1}, {"b", 1}}, Mesh{{"a", 3}, {"b", 2}}}, {1e-6, 1e-6}, seed, x);
  CHECK(same.message == "");
}

TEST_CASE("distributions check their numbers", "[api][errors]") {
  const Shape f{DType::f32, {3}};
  GSPMD_REQUIRE_ERROR("random_truncated_normal: lower 2 and upper 1 are wrong",
                      trace([] { return random_truncated_normal(1, 2, 1, {2}); }));
  GSPMD_REQUIRE_ERROR("random_bernoulli: probability 1.5 is wrong; give 0 to 1",
                      trace([] { return random_bernoulli(1, 1.5, {2}); }));
  GSPMD_REQUIRE_ERROR("random_randint: low 3 and high 3 are wrong; give low < high",
                      trace([] { return random_randint(1, {2}, 3, 3); }));
  GSPMD_REQUIRE_ERROR("random_randint: the number 256 is not a u8",
                      trace([] { return random_randint(1, {2}, 0, 257, {.dtype = DType::u8}); }));
  GSPMD_REQUIRE_ERROR("random_permutation: size -1 is negative",
                      trace([] { return random_permutation(1, -1); }));
  GSPMD_REQUIRE_ERROR("random_categorical: axis 1 is outside arg0 f32[3]",
                      trace([](Tensor x) { return random_categorical(1, x, {.axis = 1}); }, f));
  GSPMD_REQUIRE_ERROR("dropout: rate -0.5 is wrong; give 0 to 1",
                      trace([](Tensor x) { return dropout(1, x, -0.5); }, f));
}
