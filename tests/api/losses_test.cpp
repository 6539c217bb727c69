#include <limits>

#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

namespace losses_test {
namespace {

const Shape kF{DType::f32, {2, 3}}, kS{DType::s32, {2}}, kLine{DType::f32, {4}};

}  // namespace

TEST_CASE("losses are those of their formulas in NumPy", "[api][numpy]") {
  const NumpyCases cases("losses");
  const LossOptions none{.reduction = Reduction::none}, sum{.reduction = Reduction::sum};
  cases.check("mse", [](Tensor x, Tensor y) { return mse_loss(x, y); });
  cases.check("mse_rows", [&](Tensor x, Tensor y) { return mse_loss(x, y, none); });
  cases.check("mse_sum", [&](Tensor x, Tensor y) { return mse_loss(x, y, sum); });
  cases.check("huber", [](Tensor x, Tensor y) { return huber_loss(x, y, {.delta = 0.7}); });
  const auto binary = [&](const char* name, const BinaryCrossEntropyOptions& options) {
    cases.check(
        name, [&](Tensor x, Tensor t) { return binary_cross_entropy_with_logits(x, t, options); });
  };
  binary("binary", {.reduction = Reduction::none});
  binary("binary_weighted", {.pos_weight = 3});
  binary("binary_smoothed", {.label_smoothing = 0.2});
}

TEST_CASE("cross_entropy with smoothing, z-loss and padding is that of its formula",
          "[api][numpy]") {
  const NumpyCases cases("losses");
  const auto check = [&](const char* name, const CrossEntropyOptions& options) {
    cases.check(name, [&](Tensor x, Tensor l) { return cross_entropy(x, l, options); });
  };
  check("cross_entropy", {});
  check("cross_entropy_none", {.reduction = Reduction::none});
  check("cross_entropy_smoothed", {.label_smoothing = 0.1});
  check("cross_entropy_z", {.label_smoothing = 0.1, .z_loss = 1e-2, .reduction = Reduction::sum});
  check("cross_entropy_padded", {.z_loss = 1e-3, .ignore_index = -1});
  check("cross_entropy_nothing", {.ignore_index = -1});
}

TEST_CASE("binary cross entropy has slope sigmoid(x) - t, at 0 and far out too", "[api]") {
  const Array x = Array::of<double>({4}, {-900, 0, 0, 900});
  const Array t = Array::of<double>({4}, {1, 0, 1, 0});
  const auto loss = [&](Tensor logits) {
    return binary_cross_entropy_with_logits(logits, t, {.reduction = Reduction::sum});
  };
  CHECK(values(run(grad(loss), x)) == std::vector<double>{-1, 0.5, -0.5, 1});
}

TEST_CASE("labels that are no class give NaN, and those that are ignored give nothing", "[api]") {
  const Array x = random_array({DType::f64, {3, 4}}, 3);
  const auto losses = [&](const CrossEntropyOptions& options) {
    const Array labels = Array::of<int32_t>({3}, {1, 4, -7});
    return values(run([&](Tensor t) { return cross_entropy(t, labels, options); }, x));
  };
  const std::vector<double> all = losses({.reduction = Reduction::none});
  CHECK(std::isfinite(all[0]));
  CHECK(std::isnan(all[1]));
  CHECK(std::isnan(all[2]));
  CHECK(losses({.ignore_index = 4, .reduction = Reduction::none})[1] == 0);
}

TEST_CASE("losses name shapes, types and options that do not fit", "[api][errors]") {
  const auto two = [](auto f) { return [f](Tensor x, Tensor y) { return f(x, y); }; };
  GSPMD_REQUIRE_ERROR("mse_loss: shapes of arg0 f32[2,3] and arg1 f32[4] do not broadcast",
                      trace(two([](Tensor x, Tensor y) { return mse_loss(x, y); }), kF, kLine));
  GSPMD_REQUIRE_ERROR("mse_loss: needs floating numbers, got arg0 s32[2]",
                      trace([](Tensor x) { return mse_loss(x, x); }, kS));
  GSPMD_REQUIRE_ERROR("huber_loss: delta 0 is wrong; give a number above 0",
                      trace([](Tensor x) { return huber_loss(x, x, {.delta = 0}); }, kF));
  GSPMD_REQUIRE_ERROR(
      "binary_cross_entropy_with_logits: label smoothing 2 is wrong; give 0 to 1",
      trace([](Tensor x) { return binary_cross_entropy_with_logits(x, x, {.label_smoothing = 2}); },
            kF));
  GSPMD_REQUIRE_ERROR(
      "binary_cross_entropy_with_logits: pos_weight -1 is wrong; give 0 or more",
      trace([](Tensor x) { return binary_cross_entropy_with_logits(x, x, {.pos_weight = -1}); },
            kF));
  GSPMD_REQUIRE_ERROR(
      "cross_entropy: label smoothing -0.5 is wrong; give 0 to 1",
      trace(two([](Tensor x, Tensor y) { return cross_entropy(x, y, {.label_smoothing = -0.5}); }),
            kF, kS));
  GSPMD_REQUIRE_ERROR(
      "cross_entropy: z_loss -1 is wrong; give 0 or more, and finite",
      trace(two([](Tensor x, Tensor y) { return cross_entropy(x, y, {.z_loss = -1}); }), kF, kS));
}

}  // namespace losses_test
