#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

namespace numpy_optimizers_test {
namespace {

using Params = std::vector<Tensor>;

// Updates with the gradients in the slices of `grads`, one after the other.
template <class State, class Options>
Params updated(Params params, State state, const Params& grads, const Options& options) {
  for (int64_t t = 0; t < grads[0].dim(0); ++t) {
    Params now;
    for (const Tensor& g : grads) now.push_back(g(t));
    std::tie(params, state) = state.update(params, now, options);
  }
  return params;
}

// Whether an optimizer gives what its formula gives in NumPy for a matrix and a vector, also on a
// mesh that splits parameters and gradients unevenly.
template <template <class> class Optimizer, class Options>
void check_updates(const std::string& name, const Options& options) {
  NumpyCases("optimizers").check(name, [&](Tensor w, Tensor b, Tensor gw, Tensor gb) {
    return updated({w, b}, Optimizer<Params>::zeros_like({w, b}), {gw, gb}, options);
  });
}

}  // namespace

TEST_CASE("optimizers follow their formulas, in NumPy", "[api][numpy]") {
  check_updates<Sgd>("sgd", SgdOptions{.lr = 0.1, .weight_decay = 0.01});
  check_updates<Sgd>("sgd_nesterov", SgdOptions{.lr = 0.1, .weight_decay = 0.01, .nesterov = true});
  const AdamOptions adam{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
  check_updates<Adam>("adam", adam);
  check_updates<AdamW>("adamw", adam);
  check_updates<RmsProp>(
      "rmsprop",
      RmsPropOptions{.lr = 0.05, .decay = 0.9, .eps = 1e-6, .momentum = 0.5, .weight_decay = 0.1});
  check_updates<Lion>("lion",
                      LionOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1});
}

TEST_CASE("optimizers with rates of each leaf's own follow their formulas, in NumPy",
          "[api][numpy]") {
  check_updates<Lamb>(
      "lamb",
      LambOptions{
          .lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1, .min_rank = 2});
  LarsOptions lars{.lr = 0.5, .weight_decay = 0.01, .trust_coefficient = 0.02};
  check_updates<Lars>("lars", lars);
  lars.nesterov = true;
  check_updates<Lars>("lars_nesterov", lars);
  lars.variant = LarsMomentum::scaled;
  lars.min_rank = 2;
  check_updates<Lars>("lars_vectors", lars);
  check_updates<Lars>("lars_scaled", LarsOptions{.lr = 0.5,
                                                 .weight_decay = 0.01,
                                                 .trust_coefficient = 0.02,
                                                 .variant = LarsMomentum::scaled});
}

TEST_CASE("Adafactor follows its formula, in NumPy", "[api][numpy]") {
  const AdafactorOptions options{
      .lr = 0.3, .decay_rate = 0.7, .clip_threshold = 0.9, .eps = 1e-8, .weight_decay = 0.1};
  const NumpyCases cases("optimizers");
  for (const int64_t min_dim : {2, 128})
    cases.check(min_dim == 2 ? "adafactor" : "adafactor_full",
                [&](Tensor w, Tensor b, Tensor gw, Tensor gb) {
                  const auto state = Adafactor<Params>::zeros_like({w, b}, min_dim);
                  return updated({w, b}, state, {gw, gb}, options);
                });
  cases.check("adafactor_stack", [&](Tensor w, Tensor g) {
    const auto state = Adafactor<Params>::zeros_like({w}, 2);
    CHECK(state.row.at(0).dims() == Dims{2, 3});
    CHECK(state.column.at(0).dims() == Dims{2, 6});
    return updated({w}, state, {g}, options);
  });
}

TEST_CASE("a moving average weighs updates by their age, from the first one on", "[api][numpy]") {
  NumpyCases("optimizers").check("average", [](Tensor x) {
    auto mean = ExponentialMovingAverage<Tensor>::zeros_like(x(0));
    for (int64_t t = 0; t < x.dim(0); ++t) mean = mean.update(x(t), {.decay = 0.9});
    return mean.average;
  });
}

}  // namespace numpy_optimizers_test
