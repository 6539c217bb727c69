#pragma once

// What stands between gradients and an optimizer: clipping, accumulation over microbatches, and
// averages of weights.

#include <utility>
#include <vector>

#include "gspmd/api/control.h"
#include "gspmd/api/grad.h"
#include "gspmd/api/math.h"
#include "gspmd/base/export.h"

namespace gspmd {

// sqrt of the sum of squares of all leaves.
GSPMD_API Tensor global_norm(const std::vector<Tensor>& leaves, Site site = Site::here());
// As global_norm, of a tree of tensors.
template <class Tree>
Tensor global_norm_of(const Tree& tree, Site site = Site::here()) {
  return global_norm(detail::tensors_of(tree), site);
}

namespace detail {
GSPMD_API Tensor clip_factor(Tensor norm, Operand max_norm, Site site);  // min(1, max_norm / norm)
// Leaf * factor, in the leaf's dtype.
GSPMD_API Tensor scale_leaf(Tensor leaf, Tensor factor, Site site);
GSPMD_API Tensor clip_leaf(Tensor leaf, Operand limit, Site site);
}  // namespace detail

// {the tree scaled so that its global norm is at most max_norm, the norm before}.
template <class Tree>
std::pair<Tree, Tensor> clip_by_global_norm(const Tree& tree, Operand max_norm,
                                            Site site = Site::here()) {
  const Tensor norm = global_norm_of(tree, site);
  const Tensor factor = detail::clip_factor(norm, max_norm, site);
  return {
      map_leaves([&](const Tensor& leaf) { return detail::scale_leaf(leaf, factor, site); }, tree),
      norm};
}

// Every element moved between -limit and limit, a positive number or scalar tensor.
template <class Tree>
Tree clip_by_value(const Tree& tree, Operand limit, Site site = Site::here()) {
  return map_leaves([&](const Tensor& leaf) { return detail::clip_leaf(leaf, limit, site); }, tree);
}

// How accumulate_gradients() cuts a batch.
struct AccumulateOptions {
  int64_t microbatches = 1;  // 1 or more; divides the batch
  // The sums are split as what reads them, parameters or an optimizer's state that are split over
  // the batch's axes: gradients are reduced and scattered with each microbatch, and no device holds
  // all of a sum.
  bool scatter_each = false;
};

namespace detail {
// [b, ...] -> [n, b/n, ...]: rows i, i + n, i + 2n, ... are slice i, so that each device keeps
// its own rows of a batch that is split.
GSPMD_API std::vector<Tensor> microbatches_of(const PathLeaves& batch, int64_t n, Site site);
// Zeros in which the leaves' gradients are summed, of f32 or more bits.
GSPMD_API std::vector<Tensor> accumulators(const std::vector<Tensor>& leaves, Site site);
// A zero in which losses of such leaves are summed.
GSPMD_API Tensor loss_accumulator(const std::vector<Tensor>& leaves, Site site);
GSPMD_API std::vector<Tensor> accumulated(const std::vector<Tensor>& sums,
                                          const std::vector<Tensor>& values, Site site);
// The sums over n, in the dtypes of `like`.
GSPMD_API std::vector<Tensor> averages(const std::vector<Tensor>& sums,
                                       const AccumulateOptions& options,
                                       const std::vector<Tensor>& like, Site site);

// What a function returns besides the loss.
inline Nothing rest_of(const Tensor&) { return {}; }
template <class Rest>
Rest rest_of(const std::pair<Tensor, Rest>& value) {
  return value.second;
}
template <class... Rest>
std::tuple<Rest...> rest_of(const std::tuple<Tensor, Rest...>& value) {
  return std::apply([](const Tensor&, const Rest&... rest) { return std::tuple{rest...}; }, value);
}
}  // namespace detail

// {loss, gradients with respect to params} of f(params, batch), a mean over the batch, one
// microbatch after the other: with the memory of one, and one reduction of the gradients over the
// mesh, at the end. f returns a floating scalar, or a pair or tuple that starts with it; then
// {{loss, the rest of each microbatch, stacked along a new dim 0}, gradients}. `batch`: a tree of
// tensors whose dim 0 counts the batch; of n microbatches number i has rows i, i + n, i + 2n, ...
// Rows stay where they are when n also divides the rows that each device has of a split batch; else
// the batch is gathered first. Sums are kept in f32 or more bits. UserError: n does not divide the
// batch.
template <class F, class Params, class Batch>
auto accumulate_gradients(F f, const Params& params, const Batch& batch,
                          const AccumulateOptions& options = {}, Site site = Site::here()) {
  const int64_t n = options.microbatches;
  const auto leaves = detail::tensors_of(params);
  const auto slices = detail::with_leaves(batch, detail::microbatches_of(flatten(batch), n, site));
  using Sums = std::pair<leaf_t<Params>, std::vector<leaf_t<Params>>>;  // of tensors
  const auto [sums, rest] = scan(
      [&](const Sums& so_far, const Batch& part) {
        const auto value_and_grads = value_and_grad(f, site)(params, part);
        const std::vector loss{detail::loss_of(value_and_grads.first)};
        const auto grads = detail::tensors_of(value_and_grads.second);
        return std::pair{Sums{detail::accumulated({so_far.first}, loss, site).at(0),
                              detail::accumulated(so_far.second, grads, site)},
                         detail::rest_of(value_and_grads.first)};
      },
      Sums{detail::loss_accumulator(leaves, site), detail::accumulators(leaves, site)}, slices, {},
      site);
  const Tensor loss = detail::averages({sums.first}, options, {sums.first}, site).at(0);
  auto grads = detail::with_leaves(params, detail::averages(sums.second, options, leaves, site));
  if constexpr (std::is_same_v<std::decay_t<decltype(rest)>, Nothing>)
    return std::pair{loss, std::move(grads)};
  else
    return std::pair{std::pair{loss, rest}, std::move(grads)};
}

namespace detail {
// Zeros of a kind: an array on the host, the shape itself, a tensor of the trace.
GSPMD_API Array zero_of(const Array& kind, Shape shape);
GSPMD_API Shape zero_of(const Shape& kind, Shape shape);
GSPMD_API Tensor zero_of(const Tensor& kind, Shape shape);
inline const Shape& shape_of(const Shape& shape) { return shape; }
inline const Shape& shape_of(const Array& array) { return array.shape(); }
inline Shape shape_of(const Tensor& tensor) { return tensor.shape(); }

inline Shape same_shape(const Shape& shape) { return shape; }
// Zeros, a leaf for each of `like`, of shape_for(the leaf's shape).
template <class Tree, class F = Shape (*)(const Shape&)>
Tree zero_tree(const Tree& like, F shape_for = same_shape) {
  return map_tree(like, [&](const std::string&, const leaf_t<Tree>& leaf) {
    return zero_of(leaf, shape_for(shape_of(leaf)));
  });
}
// s32[], a counter of updates.
template <class Tree>
leaf_t<Tree> zero_count() {
  return zero_of(leaf_t<Tree>(), Shape(DType::s32, {}));
}
}  // namespace detail

// How an ExponentialMovingAverage moves.
struct AverageOptions {
  double decay = 0.999;  // 0 or more and less than 1: what remains of the average in an update
};

namespace detail {
// {the average's leaves, then the counter}
GSPMD_API std::vector<Tensor> moved_averages(const PathLeaves& params, const PathLeaves& average,
                                             const Tensor& step, const AverageOptions& options,
                                             Site site);
}  // namespace detail

// The average of a tree over time, as of weights for evaluation: update t has weight proportional
// to decay^-t. It is that of the updates so far from the first one on, which is taken as it is:
// there is no start at zero to correct for.
template <class Tree>
struct ExponentialMovingAverage {
  Tree average;       // of the tree's shapes
  leaf_t<Tree> step;  // s32[], updates done
  GSPMD_FIELDS(average, step)

  // The state before the first update.
  static ExponentialMovingAverage zeros_like(const Tree& tree) {
    return {detail::zero_tree(tree), detail::zero_count<Tree>()};
  }
  // The new state. UserError: a tree of other leaves.
  ExponentialMovingAverage update(const Tree& tree, const AverageOptions& options = {},
                                  Site site = Site::here()) const {
    const auto next = detail::moved_averages(flatten(tree), flatten(average), step, options, site);
    return {detail::with_leaves(average, next), next.back()};
  }
};

}  // namespace gspmd
