#include <cmath>

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace optim_test {
namespace {

template <class T>
struct Two {
  T a, b;
  GSPMD_FIELDS(a, b)
};

const Two<Array> kParams{Array::of<double>({2}, {1, -2}), Array::scalar<double>(0.5)};
const Two<Array> kGrads{Array::of<double>({2}, {0.25, 3}), Array::scalar<double>(-1)};

// Runs `steps` updates of an optimizer with constant gradients; returns the parameters' leaves.
template <template <class> class Optimizer, class Options>
std::vector<double> train(const Options& options, int steps) {
  Two<Array> params = kParams;
  auto state = Optimizer<Two<Array>>::zeros_like(params);
  const auto step = [&](Two<Tensor> p, Optimizer<Two<Tensor>> s, Two<Tensor> g) {
    return s.update(p, g, options);
  };
  for (int i = 0; i < steps; ++i) {
    const std::vector<Array> leaves = reference_results(step, params, state, kGrads);
    size_t next = 0;
    params = map_tree(params, [&](const std::string&, const Array&) { return leaves[next++]; });
    state = map_tree(state, [&](const std::string&, const Array&) { return leaves[next++]; });
  }
  std::vector<double> result = values(params.a);
  result.push_back(params.b.item());
  return result;
}

const std::vector<double> kP{1, -2, 0.5}, kG{0.25, 3, -1};

std::vector<double> adam_by_hand(int steps, double lr, double decay, bool decoupled) {
  std::vector<double> p = kP, m(3), v(3);
  for (int t = 1; t <= steps; ++t)
    for (size_t i = 0; i < 3; ++i) {
      const double g = kG[i] + (decoupled ? 0 : decay * p[i]);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.99 * v[i] + 0.01 * g * g;
      const double update =
          m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.99, t))) + 1e-6);
      p[i] -= lr * (update + (decoupled ? decay * p[i] : 0));
    }
  return p;
}

void check_close(const std::vector<double>& seen, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(seen.at(i) == Approx(expected[i]).epsilon(1e-12));
}

}  // namespace

TEST_CASE("Sgd with momentum and weight decay follows its formula", "[api]") {
  std::vector<double> p = kP, v(3);
  for (int t = 0; t < 4; ++t)
    for (size_t i = 0; i < 3; ++i) {
      v[i] = 0.8 * v[i] + kG[i] + 0.1 * p[i];
      p[i] -= 0.05 * v[i];
    }
  check_close(train<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1}, 4), p);
}

TEST_CASE("Adam and AdamW follow their formulas", "[api]") {
  const AdamOptions plain{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6};
  check_close(train<Adam>(plain, 5), adam_by_hand(5, 0.01, 0, false));
  AdamOptions decayed = plain;
  decayed.weight_decay = 0.1;
  check_close(train<Adam>(decayed, 5), adam_by_hand(5, 0.01, 0.1, false));
  check_close(train<AdamW>(decayed, 5), adam_by_hand(5, 0.01, 0.1, true));
}

TEST_CASE("the learning rate may be a tensor", "[api]") {
  const auto step = [](Two<Tensor> p, Sgd<Two<Tensor>> s, Two<Tensor> g, Tensor lr) {
    return s.update(p, g, {.lr = lr}).first;
  };
  const auto leaves = reference_results(step, kParams, Sgd<Two<Array>>::zeros_like(kParams), kGrads,
                                        Array::scalar<double>(0.5));
  CHECK(values(leaves[0]) == std::vector<double>{0.875, -3.5});
}

TEST_CASE("clip_by_global_norm scales only norms above the limit", "[api]") {
  const double norm = std::sqrt(0.25 * 0.25 + 9 + 1);
  for (const double limit : {1.0, 100.0}) {
    const auto clip = [&](Two<Tensor> g) { return clip_by_global_norm(g, limit); };
    const std::vector<Array> seen = reference_results(clip, kGrads);
    const double factor = std::min(1.0, limit / norm);
    CHECK(seen[0].at(1) == Approx(3 * factor).epsilon(1e-12));
    CHECK(seen[1].item() == Approx(-factor).epsilon(1e-12));
    CHECK(seen[2].item() == Approx(norm).epsilon(1e-12));
  }
}

}  // namespace optim_test
