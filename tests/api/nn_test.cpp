#include <cmath>

#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

const Array kRows = Array::of<double>({2, 4}, {1, -2, 0.5, 3, -1, 0.25, 2, -0.5});

int64_t count(const Module& module, Opcode opcode, bool backward) {
  int64_t n = 0;
  for (const auto& node : module.entry()->nodes())
    n += node->is(opcode) && node->backward == backward;
  return n;
}

}  // namespace

TEST_CASE("softmax and its relatives equal their definitions", "[api]") {
  const std::vector<double> p = values(run([](Tensor x) { return softmax(x); }, kRows));
  const std::vector<double> logs =
      values(run([](Tensor x) { return log_softmax(x, {.axis = 1}); }, kRows));
  const std::vector<double> totals = values(run([](Tensor x) { return logsumexp(x); }, kRows));
  for (int64_t row = 0; row < 2; ++row) {
    double total = 0;
    for (int64_t i = 0; i < 4; ++i) total += std::exp(kRows.at(row * 4 + i));
    CHECK(totals[size_t(row)] == Approx(std::log(total)).epsilon(1e-12));
    for (int64_t i = 0; i < 4; ++i) {
      const auto at = size_t(row * 4 + i);
      CHECK(p[at] == Approx(std::exp(kRows.at(int64_t(at))) / total).epsilon(1e-12));
      CHECK(logs[at] == Approx(kRows.at(int64_t(at)) - std::log(total)).epsilon(1e-12));
    }
  }
}

TEST_CASE("softmax stays finite for large scores and along any axis", "[api]") {
  const Array big = Array::of<float>({2, 1}, {30000, 29999});
  const std::vector<double> p = values(run([](Tensor x) { return softmax(x, {.axis = 0}); }, big));
  CHECK(p[0] == Approx(1 / (1 + std::exp(-1.0))).epsilon(1e-6));
  CHECK(p[0] + p[1] == Approx(1).epsilon(1e-6));
}

TEST_CASE("rms_norm and layer_norm equal their definitions", "[api]") {
  const Array scale = Array::of<double>({4}, {1, 2, -1, 0.5});
  const Array bias = Array::of<double>({4}, {0, 1, 2, 3});
  const Array rms =
      run([](Tensor x, Tensor s) { return rms_norm(x, s, {.eps = 1e-3}); }, kRows, scale);
  const Array layer =
      run([](Tensor x, Tensor s, Tensor b) { return layer_norm(x, s, b, {.eps = 1e-3}); }, kRows,
          scale, bias);
  for (int64_t row = 0; row < 2; ++row) {
    double mean = 0, squares = 0, variance = 0;
    for (int64_t i = 0; i < 4; ++i) mean += kRows.at(row * 4 + i) / 4;
    for (int64_t i = 0; i < 4; ++i) {
      squares += std::pow(kRows.at(row * 4 + i), 2) / 4;
      variance += std::pow(kRows.at(row * 4 + i) - mean, 2) / 4;
    }
    for (int64_t i = 0; i < 4; ++i) {
      const double x = kRows.at(row * 4 + i);
      CHECK(rms.at(row * 4 + i) ==
            Approx(x / std::sqrt(squares + 1e-3) * scale.at(i)).epsilon(1e-12));
      CHECK(layer.at(row * 4 + i) ==
            Approx((x - mean) / std::sqrt(variance + 1e-3) * scale.at(i) + bias.at(i))
                .epsilon(1e-12));
    }
  }
}

TEST_CASE("relu's gradient at zero is zero and NaN stays NaN", "[api]") {
  const Array x = Array::of<double>({3}, {0, -1, 2});
  CHECK(values(run(grad([](Tensor t) { return sum(relu(t)); }), x)) ==
        std::vector<double>{0, 0, 1});
  CHECK(std::isnan(run([](Tensor t) { return relu(t); }, Array::scalar<double>(NAN)).item()));
}

TEST_CASE("rms_norm needs one sum over the model dim forward and one backward", "[api]") {
  const Shape x(DType::f32, {2, 3, 8}), scale(DType::f32, {8});
  const auto loss = [](Tensor t, Tensor s) { return sum(square(rms_norm(t, s))); };
  const Traced traced = trace(grad(loss), x, scale);
  int64_t forward = 0, backward = 0;
  for (const auto& node : traced.module().entry()->nodes())
    if (node->is(Opcode::reduce) && node->attrs.dimensions == Dims{2})
      ++(node->backward ? backward : forward);
  CHECK(forward == 1);
  CHECK(backward == 1);
}

TEST_CASE("layer_norm needs two sums backward, neither waiting for the other", "[api]") {
  const Shape x(DType::f32, {2, 3, 8}), scale(DType::f32, {8});
  const auto loss = [](Tensor t, Tensor s) { return sum(square(layer_norm(t, s))); };
  const Traced traced = trace(grad(loss), x, scale);
  std::vector<const Node*> sums;
  for (const auto& node : traced.module().entry()->nodes())
    if (node->is(Opcode::reduce) && node->attrs.dimensions == Dims{2} && node->backward)
      sums.push_back(node.get());
  REQUIRE(sums.size() == 2);
  const std::function<bool(const Node*, const Node*)> reads = [&](const Node* a, const Node* b) {
    for (const Node* operand : a->operands())
      if (operand == b || reads(operand, b)) return true;
    return false;
  };
  CHECK_FALSE(reads(sums[1], sums[0]));
}

TEST_CASE("causal_mask hides later keys and passes no gradient to them", "[api]") {
  const Array scores = Array::of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto masked = [](Tensor s) { return causal_mask(s, {.value = -9, .has_value = true}); };
  CHECK(values(run(masked, scores)) == std::vector<double>{1, 2, -9, 4, 5, 6});
  CHECK(values(run(grad([&](Tensor s) { return sum(masked(s)); }), scores)) ==
        std::vector<double>{1, 1, 0, 1, 1, 1});
  const Array weights = run([](Tensor s) { return softmax(causal_mask(s)); }, scores);
  CHECK(weights.at(2) == 0);
  CHECK(weights.at(0) + weights.at(1) == Approx(1).epsilon(1e-6));
}

TEST_CASE(
    "cross_entropy is the mean negative log likelihood, and its gradient softmax minus one-hot",
    "[api]") {
  const Array labels = Array::of<int32_t>({2}, {3, 0});
  const auto loss = [&](Tensor x) { return cross_entropy(x, labels); };
  double expected = 0;
  std::vector<double> gradient;
  for (int64_t row = 0; row < 2; ++row) {
    double total = 0;
    for (int64_t i = 0; i < 4; ++i) total += std::exp(kRows.at(row * 4 + i));
    const auto label = int64_t(labels.at(row));
    expected += (std::log(total) - kRows.at(row * 4 + label)) / 2;
    for (int64_t i = 0; i < 4; ++i)
      gradient.push_back((std::exp(kRows.at(row * 4 + i)) / total - (i == label)) / 2);
  }
  CHECK(run(loss, kRows).item() == Approx(expected).epsilon(1e-12));
  const std::vector<double> seen = values(run(grad(loss), kRows));
  for (size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == Approx(gradient[i]).margin(1e-12));
}

TEST_CASE("cross_entropy has three reductions over the vocabulary and none of them backward",
          "[api]") {
  const auto loss = [](Tensor x, Tensor labels) { return cross_entropy(x, labels); };
  const Traced traced =
      trace(value_and_grad(loss), Shape(DType::f32, {2, 3, 7}), Shape(DType::s32, {2, 3}));
  CHECK(count(traced.module(), Opcode::reduce, false) == 4);  // and the mean over tokens
  CHECK(count(traced.module(), Opcode::reduce, true) == 0);
}

TEST_CASE("logsumexp of rows of infinities, and its gradient", "[api]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Array x = Array::of<double>({3, 2}, {-kInfinity, -kInfinity, -kInfinity, 1, kInfinity, 1});
  const auto rows = [](Tensor t) { return logsumexp(t); };
  CHECK(values(run(rows, x)) == std::vector<double>{-kInfinity, 1, kInfinity});
  const Array slopes = run(grad([](Tensor t) { return sum(logsumexp(slice_dim(t, 0, 0, 2))); }), x);
  CHECK(values(slopes) == std::vector<double>{0, 0, 0, 1, 0, 0});
}
