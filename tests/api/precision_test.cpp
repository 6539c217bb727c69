#include "gspmd/api/precision.h"

#include <cmath>
#include <functional>

#include "api/support.h"

namespace gspmd::test {
namespace {

const Shape kScalar(DType::f32, {});

// As the policy: a number rounded to the type.
double rounded(DType dtype, double x) {
  return dtype == DType::bf16 ? double(bfloat16(float(x))) : double(float16(float(x)));
}

Tensor squares(Tensor w, Tensor x) { return mean(square(w * x)); }

}  // namespace

TEST_CASE("at_precision computes a function in 16 bits between f32 arguments and f32 results",
          "[api]") {
  const Array x = Array::of<float>({3}, {1.0009765625f, -3.14159f, 1e-3f});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto fn = [](Tensor t) { return t * 1.5; };
    const Array y = run(at_precision(fn, {.compute = dtype}), x);
    CHECK(y.dtype() == DType::f32);
    for (int64_t i = 0; i < 3; ++i) CHECK(y.at(i) == rounded(dtype, 1.5 * rounded(dtype, x.at(i))));
  }
  CHECK(bitwise_equal(run(at_precision([](Tensor t) { return t; }, {}), x), x));
  // Integers stay; so does what the function converts itself.
  const auto count = [](Tensor t, Tensor n) {
    CHECK(t.dtype() == DType::bf16);
    CHECK(n.dtype() == DType::s32);
    return std::pair{convert(t, DType::f32) * 2., n};
  };
  const auto both = reference_results(at_precision(count, {.compute = DType::bf16}), x,
                                      Array::of<int32_t>({1}, {7}));
  CHECK(both[0].dtype() == DType::f32);
  CHECK(both[1].dtype() == DType::s32);
}

TEST_CASE("value_and_grad at a precision: gradients of f32 masters are the 16-bit ones, in f32",
          "[api]") {
  const Array w = Array::of<float>({2}, {1.25f, -0.75f}), x = Array::of<float>({2}, {2.f, 3.f});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto step = value_and_grad<0, 1>(squares, {.compute = dtype});
    const std::vector<Array> got = reference_results(step, w, x);
    REQUIRE(got.size() == 3);
    CHECK(got[0].item() == rounded(dtype, (6.25 + 2.25 * 2.25) / 2));
    for (int64_t i = 0; i < 2; ++i) {  // d mean((w x)^2) / dw = w x^2: exact in both types here
      CHECK(got[1].dtype() == DType::f32);
      CHECK(got[1].at(i) == w.at(i) * x.at(i) * x.at(i));
      CHECK(got[2].at(i) == x.at(i) * w.at(i) * w.at(i));
    }
  }
  // Auxiliary results pass through.
  const auto with_aux = [](Tensor a) { return std::tuple{sum(a * a), a * 2.}; };
  const std::vector<Array> got =
      reference_results(value_and_grad(with_aux, {.compute = DType::bf16}), w);
  REQUIRE(got.size() == 3);
  CHECK(values(got[1]) == std::vector<double>{2.5, -1.5});
  CHECK(values(got[2]) == std::vector<double>{2.5, -1.5});
}

TEST_CASE("norms of 16-bit numbers take their statistics in f32", "[api]") {
  // Far from 0 neighbours of bf16 are 0.5 apart, and so would be a mean.
  const Array x =
      Array::of<float>({1, 8}, {98.5f, 99.f, 99.5f, 100.f, 100.5f, 101.f, 101.5f, 102.5f});
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < 8; ++i) mean += x.at(i) / 8;
  for (int64_t i = 0; i < 8; ++i) squares += (x.at(i) - mean) * (x.at(i) - mean) / 8;
  const auto layer = [](Tensor t) { return layer_norm(t, 1.); };
  const auto group = [](Tensor t) {
    const Tensor one = full({DType::bf16, {8}}, 1);
    return group_norm(t, one, one * 0., {.groups = 1});
  };
  for (const std::function<Tensor(Tensor)>& norm :
       {std::function<Tensor(Tensor)>(layer), std::function<Tensor(Tensor)>(group)}) {
    const Array y = run(at_precision(norm, {.compute = DType::bf16}), x);
    for (int64_t i = 0; i < 8; ++i)
      CHECK(y.at(i) == Approx((x.at(i) - mean) / std::sqrt(squares)).epsilon(0.004).margin(1e-3));
  }
}

TEST_CASE("running statistics that are kept in f32 move by less than 16 bits hold", "[api]") {
  const BatchNorm<Array> norm = BatchNorm<Array>::init(2);
  const BatchStatistics<Array> running{Array::full({DType::f32, {2}}, 1),
                                       Array::full({DType::f32, {2}}, 1)};
  const Array x = Array::of<float>({2, 2}, {1.0625f, 1.f, 1.0625f, 1.5f});
  const auto step = [](BatchNorm<Tensor> p, BatchStatistics<Tensor> before, Tensor t) {
    return p.train(t, before, {.momentum = 0.99}).second;
  };
  const auto moved = [&](std::vector<std::string> keep) {
    const Precision precision{.compute = DType::bf16, .keep = std::move(keep)};
    return reference_results(at_precision(step, precision), norm, running, x);
  };
  const Array kept = moved({"mean", "variance"})[0], rounded = moved({})[0];
  CHECK(kept.at(0) == Approx(0.99 + 0.01 * 1.0625).epsilon(1e-6));
  CHECK(kept.at(1) == Approx(0.99 + 0.01 * 1.25).epsilon(1e-6));
  CHECK(rounded.at(0) == 1);  // neighbours of 1 are 2^-7 and 2^-8 away
  CHECK(rounded.at(1) == 1);
}

TEST_CASE("cross_entropy of 16-bit logits is f32", "[api]") {
  Array x(DType::f32, {1, 1000});
  x.set(0, 1);
  const auto fn = [](Tensor t) {
    const Tensor loss = cross_entropy(t, zeros({DType::s32, {1}}));
    CHECK(loss.dtype() == DType::f32);
    return loss;
  };
  const double loss = run(at_precision(fn, {.compute = DType::bf16}), x).item();
  CHECK(loss == Approx(std::log(999 + std::exp(1.)) - 1).epsilon(1e-5));
}

TEST_CASE("a loss scale carries gradients that f16 would lose", "[api]") {
  const Array w = Array::of<float>({1}, {1.f});
  const auto tiny = [](Tensor t) { return sum(t * 1e-4) * 1e-5; };
  const auto at = [&](double scale) {
    return reference_results(value_and_grad(tiny, {.compute = DType::f16, .loss_scale = scale}),
                             w)[1]
        .item();
  };
  CHECK(at(1) == 0);
  CHECK(at(32768) == Approx(1e-9).epsilon(2e-2));
}

TEST_CASE("LossScale halves after a step that overflows, and doubles after many that do not",
          "[api]") {
  const auto step = [](LossScale<Tensor> s, Tensor w) {
    const auto loss = [](Tensor t) { return sum(t * 100.); };
    auto [value, grads] = value_and_grad(loss, {.compute = DType::f16, .loss_scale = s.scale})(w);
    const Tensor finite = all_finite(grads);
    w = select_tree(finite, w - grads * 0.01, w);
    return std::tuple{s.update(finite, {.growth_interval = 2}), w};
  };
  LossScale<Array> scale = LossScale<Array>::initial(4096);  // 409600 overflows f16
  Array w = Array::of<float>({1}, {8.f});
  const double scales[] = {2048, 1024, 512, 512, 1024, 512, 512, 1024};
  double expected = 8;
  for (size_t i = 0; i < 8; ++i) {
    const std::vector<Array> got = reference_results(step, scale, w);
    scale = {got[0], got[1]};
    w = got[2];
    INFO(i);
    CHECK(scale.scale.item() == scales[i]);
    if (i == 3 || i == 4 || i == 6 || i == 7) expected -= 1;  // finite: 512 * 100 < 65504
    CHECK(w.item() == Approx(expected));
  }
  const auto floor = [](LossScale<Tensor> s, Tensor f) { return s.update(f); };
  const Array no(Shape(DType::pred, {}));
  CHECK(reference_results(floor, LossScale<Array>::initial(1), no)[0].item() == 1);
}

TEST_CASE("all_finite sees an infinity or a NaN in any leaf", "[api]") {
  const auto fn = [](std::pair<Tensor, Tensor> tree) { return all_finite(tree); };
  const Array fine = Array::of<float>({2}, {1.f, -3e38f}), n = Array::of<int32_t>({}, {3});
  CHECK(run(fn, std::pair{fine, n}).item() == 1);
  for (const float bad : {INFINITY, -INFINITY, NAN})
    CHECK(run(fn, std::pair{Array::of<float>({2}, {1.f, bad}), n}).item() == 0);
}

TEST_CASE("a step in bf16 is the same on meshes that cut sizes unevenly", "[api]") {
  const Array w = random_array({DType::f32, {5, 7}}, 1), x = random_array({DType::f32, {6, 5}}, 2);
  const auto on = [](const Mesh& mesh) {
    const auto loss = [mesh](Tensor a, Tensor b) {
      return mean(square(tanh(einsum("bi,io->bo", mesh_split(b, mesh, {"x", _}), a))));
    };
    return value_and_grad(loss, {.compute = DType::bf16});
  };
  // A batch that is cut sums gradients that were rounded: 2^-8 of the largest.
  CHECK(expect_equal_on_meshes(on, {Mesh{{"x", 1}}, Mesh{{"x", 2}}, Mesh{{"x", 4}}}, {2e-2, 2e-3},
                               w, x));
}

TEST_CASE("precisions that cannot be are errors at the user's line", "[api]") {
  const Shape x(DType::f32, {3});
  const auto loss = [](Tensor t) { return sum(t); };
  GSPMD_REQUIRE_ERROR("cannot compute in s32; choose DType::f32, DType::bf16 or DType::f16",
                      trace(value_and_grad(loss, {.compute = DType::s32}), x));
  GSPMD_REQUIRE_ERROR("the loss scale is 0; give a positive number",
                      trace(value_and_grad(loss, {.loss_scale = 0}), x));
  GSPMD_REQUIRE_ERROR(
      "must be a number or an f32 scalar",
      trace([&](Tensor t) { return value_and_grad(loss, {.loss_scale = t})(t).second; }, x));
  GSPMD_REQUIRE_ERROR("must be a pred scalar",
                      trace([](Tensor t) { return select_tree(t, t, t); }, x));
  GSPMD_REQUIRE_ERROR(
      "the trees must be alike",
      trace([](Tensor t, Tensor u) { return select_tree(all_finite(t), t, u); }, x, kScalar));
  GSPMD_REQUIRE_ERROR("the scale is -3; give a positive number", LossScale<Array>::initial(-3));
  GSPMD_REQUIRE_ERROR("growth_interval is 0",
                      trace(
                          [](Tensor t) {
                            return LossScale<Tensor>{sum(t), convert(sum(t), DType::s32)}.update(
                                all_finite(t), {.growth_interval = 0});
                          },
                          x));
  GSPMD_REQUIRE_ERROR("the factor 0 is wrong",
                      trace(
                          [](Tensor t) {
                            return LossScale<Tensor>{sum(t), convert(sum(t), DType::s32)}.update(
                                all_finite(t), {.backoff = 0});
                          },
                          x));
}

}  // namespace gspmd::test
