#pragma once

// Optimizers: pure functions from parameters, gradients and state to new parameters and state. The
// state has the parameters' shapes, so that completion lays it out like them.

#include <utility>

#include "gspmd/api/training.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {
// The new leaves of the parameters, then those of each tree of the state, in order.
using LeafLists = std::vector<std::vector<Tensor>>;
}  // namespace detail

// Stochastic gradient descent with momentum.
struct SgdOptions {
  Operand lr = 1e-2;        // learning rate: a number, or a scalar tensor
  double momentum = 0.9;    // 0: none
  double weight_decay = 0;  // added to the gradient
  bool nesterov = false;    // the gradient is taken where the momentum leads (Nesterov 1983)
};

namespace detail {
GSPMD_API LeafLists sgd_update(const PathLeaves& params, const PathLeaves& grads,
                               const PathLeaves& velocity, const SgdOptions& options, Site site);
}  // namespace detail

// velocity = momentum * velocity + grad; param -= lr * velocity, of Nesterov's param -= lr * (grad
// + momentum * velocity). As torch.optim.SGD.
template <class Tree>
struct Sgd {
  Tree velocity;  // one per parameter, of its shape
  GSPMD_FIELDS(velocity)

  // The state before the first step.
  static Sgd zeros_like(const Tree& params) { return {detail::zero_tree(params)}; }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Sgd> update(const Tree& params, const Tree& grads, const SgdOptions& options = {},
                              Site site = Site::here()) const {
    const auto next =
        detail::sgd_update(flatten(params), flatten(grads), flatten(velocity), options, site);
    return {detail::with_leaves(params, next[0]), {detail::with_leaves(velocity, next[1])}};
  }
};

// As in Kingma and Ba 2014.
struct AdamOptions {
  Operand lr = 1e-3;        // learning rate: a number, or a scalar tensor
  double beta1 = 0.9;       // decay of the first moment
  double beta2 = 0.999;     // decay of the second moment
  double eps = 1e-8;        // added to the root of the second moment
  double weight_decay = 0;  // 0: none
};

namespace detail {
GSPMD_API LeafLists adam_update(const PathLeaves& params, const PathLeaves& grads,
                                const PathLeaves& m, const PathLeaves& v, const Tensor& step,
                                bool decoupled, const AdamOptions& options, Site site);

// {new params, new state} of optimizers with two moments and a counter.
template <class State, class Tree>
std::pair<Tree, State> moments_result(const State& state, const Tree& params,
                                      const late_t<LeafLists, Tree>& next) {
  return {with_leaves(params, next[0]),
          {with_leaves(state.m, next[1]), with_leaves(state.v, next[2]), next[3].at(0)}};
}
}  // namespace detail

// Kingma and Ba 2014, with both moments corrected for their start at zero; weight decay is added to
// the gradient.
template <class Tree>
struct Adam {
  Tree m, v;          // first and second moments, of the parameters' shapes
  leaf_t<Tree> step;  // s32[], updates done
  GSPMD_FIELDS(m, v, step)

  // The state before the first step.
  static Adam zeros_like(const Tree& params) {
    return {detail::zero_tree(params), detail::zero_tree(params), detail::zero_count<Tree>()};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Adam> update(const Tree& params, const Tree& grads,
                               const AdamOptions& options = {}, Site site = Site::here()) const {
    return detail::moments_result(*this, params,
                                  detail::adam_update(flatten(params), flatten(grads), flatten(m),
                                                      flatten(v), step, false, options, site));
  }
};

// As Adam, with weight decay applied to the parameter directly (Loshchilov and Hutter 2017).
template <class Tree>
struct AdamW {
  Tree m, v;          // first and second moments, of the parameters' shapes
  leaf_t<Tree> step;  // s32[], updates done
  GSPMD_FIELDS(m, v, step)

  // The state before the first step.
  static AdamW zeros_like(const Tree& params) {
    return {detail::zero_tree(params), detail::zero_tree(params), detail::zero_count<Tree>()};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, AdamW> update(const Tree& params, const Tree& grads,
                                const AdamOptions& options = {}, Site site = Site::here()) const {
    return detail::moments_result(*this, params,
                                  detail::adam_update(flatten(params), flatten(grads), flatten(m),
                                                      flatten(v), step, true, options, site));
  }
};

// Adam's direction in steps of the parameters' own lengths: You et al. 2019, "Large batch
// optimization for deep learning".
struct LambOptions {
  Operand lr = 1e-3;        // learning rate: a number, or a scalar tensor
  double beta1 = 0.9;       // decay of the first moment
  double beta2 = 0.999;     // decay of the second moment
  double eps = 1e-6;        // added to the root of the second moment
  double weight_decay = 0;  // of the parameter itself; 0: none
  // Leaves of fewer dims, as biases and scales, take Adam's step, without weight decay.
  int64_t min_rank = 0;
};

namespace detail {
GSPMD_API LeafLists lamb_update(const PathLeaves& params, const PathLeaves& grads,
                                const PathLeaves& m, const PathLeaves& v, const Tensor& step,
                                const LambOptions& options, Site site);
}  // namespace detail

// param -= lr * |param| / |r| * r, of r = Adam's direction + weight_decay * param; the norms are
// those of a leaf, and their ratio is 1 where one of them is 0.
template <class Tree>
struct Lamb {
  Tree m, v;          // first and second moments, of the parameters' shapes
  leaf_t<Tree> step;  // s32[], updates done
  GSPMD_FIELDS(m, v, step)

  // The state before the first step.
  static Lamb zeros_like(const Tree& params) {
    return {detail::zero_tree(params), detail::zero_tree(params), detail::zero_count<Tree>()};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Lamb> update(const Tree& params, const Tree& grads,
                               const LambOptions& options = {}, Site site = Site::here()) const {
    return detail::moments_result(*this, params,
                                  detail::lamb_update(flatten(params), flatten(grads), flatten(m),
                                                      flatten(v), step, options, site));
  }
};

// What the momentum of Lars adds up: gradients, by whose sum the step is scaled anew each time
// (scaled), or steps as they were when they were made (unscaled). Kumar et al. 2019, "Scale
// MLPerf-0.6 models on Google TPU-v3 pods".
enum class LarsMomentum : uint8_t { scaled, unscaled };

// Rates of each leaf's own: You, Gitman and Ginsburg 2017.
struct LarsOptions {
  Operand lr = 1.0;                               // learning rate: a number, or a scalar tensor
  double momentum = 0.9;                          // decay of the velocity
  double weight_decay = 0;                        // added to the gradient
  double trust_coefficient = 1e-3;                // of the ratio
  double eps = 0;                                 // added to the ratio's divisor
  LarsMomentum variant = LarsMomentum::unscaled;  // what the momentum adds up
  bool nesterov = false;                          // as of SgdOptions
  int64_t min_rank = 0;  // leaves of fewer dims have ratio 1 and no weight decay
};

namespace detail {
GSPMD_API LeafLists lars_update(const PathLeaves& params, const PathLeaves& grads,
                                const PathLeaves& velocity, const LarsOptions& options, Site site);
}  // namespace detail

// rate = lr * trust_coefficient * |param| / (|grad| + weight_decay * |param| + eps), with the norms
// of a leaf, and lr where one of them is 0; g = grad + weight_decay * param.
//   unscaled: velocity = momentum * velocity + rate * g; param -= velocity
//   scaled:   velocity = momentum * velocity + g;        param -= rate * velocity
template <class Tree>
struct Lars {
  Tree velocity;  // one per parameter, of its shape
  GSPMD_FIELDS(velocity)

  // The state before the first step.
  static Lars zeros_like(const Tree& params) { return {detail::zero_tree(params)}; }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Lars> update(const Tree& params, const Tree& grads,
                               const LarsOptions& options = {}, Site site = Site::here()) const {
    const auto next =
        detail::lars_update(flatten(params), flatten(grads), flatten(velocity), options, site);
    return {detail::with_leaves(params, next[0]), {detail::with_leaves(velocity, next[1])}};
  }
};

// Tieleman and Hinton 2012.
struct RmsPropOptions {
  Operand lr = 1e-2;        // learning rate: a number, or a scalar tensor
  double decay = 0.99;      // of the mean of squares
  double eps = 1e-8;        // added to its root
  double momentum = 0;      // of the steps; 0: none
  double weight_decay = 0;  // added to the gradient
};

namespace detail {
GSPMD_API LeafLists rmsprop_update(const PathLeaves& params, const PathLeaves& grads,
                                   const PathLeaves& v, const PathLeaves& velocity,
                                   const RmsPropOptions& options, Site site);
}  // namespace detail

// v = decay * v + (1 - decay) * grad^2; velocity = momentum * velocity + grad / (sqrt(v) + eps);
// param -= lr * velocity. As torch.optim.RMSprop.
template <class Tree>
struct RmsProp {
  Tree v, velocity;  // mean of squares, and momentum, of the parameters' shapes
  GSPMD_FIELDS(v, velocity)

  // The state before the first step.
  static RmsProp zeros_like(const Tree& params) {
    return {detail::zero_tree(params), detail::zero_tree(params)};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, RmsProp> update(const Tree& params, const Tree& grads,
                                  const RmsPropOptions& options = {},
                                  Site site = Site::here()) const {
    const auto next = detail::rmsprop_update(flatten(params), flatten(grads), flatten(v),
                                             flatten(velocity), options, site);
    return {detail::with_leaves(params, next[0]),
            {detail::with_leaves(v, next[1]), detail::with_leaves(velocity, next[2])}};
  }
};

// Chen et al. 2023: a step of one size for every element, in the direction of its sign.
struct LionOptions {
  Operand lr = 1e-4;        // learning rate: a number, or a scalar tensor
  double beta1 = 0.9;       // weight of the momentum in the direction
  double beta2 = 0.99;      // decay of the momentum
  double weight_decay = 0;  // of the parameter itself; 0: none
};

namespace detail {
GSPMD_API LeafLists lion_update(const PathLeaves& params, const PathLeaves& grads,
                                const PathLeaves& momentum, const LionOptions& options, Site site);
}  // namespace detail

// param -= lr * (sign(beta1 * m + (1 - beta1) * grad) + weight_decay * param); then m is averaged
// with grad by beta2.
template <class Tree>
struct Lion {
  Tree m;  // one per parameter, of its shape
  GSPMD_FIELDS(m)

  // The state before the first step.
  static Lion zeros_like(const Tree& params) { return {detail::zero_tree(params)}; }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Lion> update(const Tree& params, const Tree& grads,
                               const LionOptions& options = {}, Site site = Site::here()) const {
    const auto next =
        detail::lion_update(flatten(params), flatten(grads), flatten(m), options, site);
    return {detail::with_leaves(params, next[0]), {detail::with_leaves(m, next[1])}};
  }
};

// Shazeer and Stern 2018: of matrices the means of the squares' rows and columns are kept instead
// of a second moment.
struct AdafactorOptions {
  Operand lr = 1e-2;          // learning rate: a number, or a scalar tensor
  double decay_rate = 0.8;    // squares decay by 1 - t^-decay_rate in update t = 1, 2, ...
  double clip_threshold = 1;  // steps of a leaf longer than this, by their root mean square, shrink
  double eps = 1e-30;         // added to the squares of gradients
  double min_scale = 1e-3;    // least root mean square of a parameter that scales its step
  bool scale_by_param = true;  // lr is relative to the root mean square of the parameter
  double weight_decay = 0;     // of the parameter itself, times lr; 0: none
};

namespace detail {
// Shapes of the leaves of Adafactor's state for a parameter; [1] where one is not used.
struct FactoredShapes {
  Shape row, column, full;
};
GSPMD_API FactoredShapes factored_shapes(const Shape& param, int64_t min_dim);
GSPMD_API LeafLists adafactor_update(const PathLeaves& params, const PathLeaves& grads,
                                     const PathLeaves& row, const PathLeaves& column,
                                     const PathLeaves& v, const Tensor& step,
                                     const AdafactorOptions& options, Site site);
}  // namespace detail

// param -= lr * max(min_scale, rms(param)) * u / max(1, rms(u) / clip_threshold), of u = grad /
// sqrt(second moment); the second moment of a leaf with two large dims is the product of its means
// along the two, over the mean of one of them. As optax.adafactor, without momentum.
template <class Tree>
struct Adafactor {
  // Mean squares along the larger of the two largest dims, along the other, and of leaves that are
  // not factored; [1] for those that have none.
  Tree row, column, v;
  leaf_t<Tree> step;  // s32[], updates done
  GSPMD_FIELDS(row, column, v, step)

  // The state before the first step. Leaves are factored whose two largest dims have `min_dim`
  // elements or more.
  static Adafactor zeros_like(const Tree& params, int64_t min_dim = 128) {
    const auto zeros = [&](Shape detail::FactoredShapes::*which) {
      return detail::zero_tree(params, [&](const Shape& shape) {
        return detail::factored_shapes(shape, min_dim).*which;
      });
    };
    return {zeros(&detail::FactoredShapes::row), zeros(&detail::FactoredShapes::column),
            zeros(&detail::FactoredShapes::full), detail::zero_count<Tree>()};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Adafactor> update(const Tree& params, const Tree& grads,
                                    const AdafactorOptions& options = {},
                                    Site site = Site::here()) const {
    const auto next = detail::adafactor_update(flatten(params), flatten(grads), flatten(row),
                                               flatten(column), flatten(v), step, options, site);
    return {detail::with_leaves(params, next[0]),
            {detail::with_leaves(row, next[1]), detail::with_leaves(column, next[2]),
             detail::with_leaves(v, next[3]), next[4].at(0)}};
  }
};

}  // namespace gspmd
