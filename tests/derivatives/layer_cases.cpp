#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kLayerAt = f64({3, 5}, 41, -1, 1);
const Array kSquareImage = f64({5, 5}, 42, -1, 1);
const Array kSequence = f64({3, 4, 2}, 43, -1, 1);  // b, t, in

Lstm<Tensor> lstm(Tensor t) {
  const Tensor w = t(0, range(0, 2), all) * 2.;  // 2,2
  return {stack({w, sin(w), w * w, cos(w)}, 1), stack({sin(w), w, cos(w), w * w}, 1),
          stack({t(0, 2), t(0, 3), t(1, 0), t(1, 1)})};
}

Gru<Tensor> gru(Tensor t) {
  const Tensor w = t(0, range(0, 2), all) * 2.;
  return {stack({w, sin(w), w * w}, 1), stack({sin(w), w, cos(w)}, 1),
          stack({t(0, 2), t(0, 3), t(1, 0)}), stack({t(1, 1), t(1, 2), t(1, 3)})};
}

std::vector<Case> layers() {
  return {
      GSPMD_CASE("Linear", kLayerAt, (Linear<Tensor>{transpose(sin(t)), t(0, range(0, 3))}(t))),
      GSPMD_CASE("Embedding", kLayerAt, Embedding<Tensor>{t * t}(s32({2, 2}, {2, 0, 2, 1}))),
      GSPMD_CASE("Embedding: of logits", kLayerAt, Embedding<Tensor>{sin(t)}.attend(t)),
      GSPMD_CASE("LayerNorm", kLayerAt, (LayerNorm<Tensor>{t(0) + 2., t(1)}(t))),
      GSPMD_CASE("RmsNorm", kLayerAt, RmsNorm<Tensor>{t(0) + 2.}(t)),
      GSPMD_CASE("GroupNorm", kSequence,
                 (GroupNorm<Tensor>{t(0, 0) + 2., t(0, 1)}(t, {.groups = 1}))),
      GSPMD_CASE("BatchNorm", kLayerAt,
                 (BatchNorm<Tensor>{t(0) + 2., t(1)}
                      .train(t, BatchStatistics<Tensor>{t(0) * 0., t(0) * 0. + 1.})
                      .first)),
      GSPMD_CASE("BatchNorm: of groups", f64({4, 3}, 44, -1, 1),
                 (BatchNorm<Tensor>{t(0) + 2., t(1)}
                      .train(t, BatchStatistics<Tensor>{t(0), t(0)}, {.eps = 0.1, .groups = 2})
                      .first)),
      GSPMD_CASE("BatchNorm: of running averages", kLayerAt,
                 (BatchNorm<Tensor>{t(0) + 2., t(1)}.infer(
                     t, BatchStatistics<Tensor>{t(2), t(1) * t(1) + 1.}))),
      GSPMD_CASE("Lstm", kSequence,
                 lstm(t)(t, LstmState<Tensor>{t(all, 0), t(all, 1)}, {.reverse = true}).first),
      GSPMD_CASE("Lstm: a step", kSequence,
                 lstm(t).step(t(all, 2), LstmState<Tensor>{t(all, 0), t(all, 1)}).hidden),
      GSPMD_CASE("Gru", kSequence, gru(t)(t, t(all, 0), {.unroll = 2}).first),
      GSPMD_CASE("Gru: a step", kSequence, gru(t).step(t(all, 2), t(all, 0))),
  };
}

// By numbers that do not depend on the distribution's parameters.
std::vector<Case> draws() {
  return {
      GSPMD_CASE("dropout", kLayerAt, dropout(3, t * t, 0.4)),
      GSPMD_CASE("random_normal", kLayerAt,
                 t + sin(t) * random_normal(3, {3, 5}, {.dtype = DType::f64})),
      GSPMD_CASE("random_uniform", kLayerAt,
                 t * random_uniform(4, {3, 5}, {.dtype = DType::f64}) * t(0)),
      GSPMD_CASE("random_truncated_normal", kLayerAt,
                 t * t * random_truncated_normal(5, -1, 2, {5}, {.dtype = DType::f64})),
      GSPMD_CASE("random_exponential", kLayerAt,
                 exp(t) * random_exponential(6, {3, 5}, {.dtype = DType::f64})),
      GSPMD_CASE("random_gumbel", kLayerAt,
                 softmax((t + random_gumbel(7, {3, 5}, {.dtype = DType::f64})) * 2.)),
  };
}

// What a second step makes of `t`, with gradients that depend on it, as in MAML.
template <template <class> class Optimizer>
Tensor second_step(Tensor t) {
  auto [params, state] = Optimizer<Tensor>::zeros_like(t).update(t, sin(t), {.lr = 0.1});
  return state.update(params, params * t, {.lr = 0.1}).first;
}

Tensor average(Tensor t) {
  const auto average = ExponentialMovingAverage<Tensor>::zeros_like(t);
  return average.update(t * t, {.decay = 0.7}).update(sin(t), {.decay = 0.7}).average;
}

// The gradient over two halves of a batch, of weights and rows that are both `t`.
Tensor accumulated(Tensor t) {
  const auto loss = [](Tensor w, Tensor rows) { return mean(square(sin(matmul(rows, w)))); };
  return accumulate_gradients(loss, t, t(range(0, 4)), {.microbatches = 2}).second;
}

std::vector<Case> training() {
  return {
      GSPMD_CASE("Sgd", kLayerAt, second_step<Sgd>(t)),
      GSPMD_CASE("Adam", kLayerAt, second_step<Adam>(t)),
      GSPMD_CASE("AdamW", kLayerAt, second_step<AdamW>(t)),
      GSPMD_CASE("Lamb", kLayerAt, second_step<Lamb>(t)),
      GSPMD_CASE("Lars", kLayerAt, second_step<Lars>(t)),
      GSPMD_CASE("RmsProp", kLayerAt, second_step<RmsProp>(t)),
      GSPMD_CASE("Lion", kLayerAt, second_step<Lion>(t) * t),
      GSPMD_CASE("Adafactor", kLayerAt, second_step<Adafactor>(t)),
      GSPMD_CASE("ExponentialMovingAverage", kLayerAt, average(t)),
      GSPMD_CASE("accumulate_gradients", kSquareImage, accumulated(t)),
      GSPMD_CASE("select_tree", kLayerAt, select_tree(t(0, 0) > 9., t * t, sin(t))),
      GSPMD_CASE("global_norm", kLayerAt, global_norm({t, sin(t)}) * t),
      GSPMD_CASE("global_norm_of", kLayerAt, global_norm_of(std::pair{t, sin(t)}) * t),
      GSPMD_CASE("clip_by_global_norm", kLayerAt, clip_by_global_norm(t, 1.).first),
      GSPMD_CASE("clip_by_value", kLayerAt, clip_by_value(t, 0.5) * t),
  };
}

}  // namespace

std::vector<Case> layer_cases() {
  std::vector<Case> cases = layers();
  for (auto& more : {draws(), training()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace gspmd::test
