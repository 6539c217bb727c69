#pragma once

// Training in 16-bit numbers: masters in f32, the function in bf16 or f16, sums in f32.

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "gspmd/api/grad.h"
#include "gspmd/api/operand.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/array.h"
#include "gspmd/base/export.h"

namespace gspmd {

// The number types of a training step. Arguments stay as they are (f32 masters), the function sees
// them in `compute`, products and reductions of 16-bit numbers are summed in f32 whatever the
// policy, and gradients come back in the arguments' types.
struct Precision {
  DType compute = DType::f32;  // f32 (nothing changes), bf16 or f16
  // Multiplied into the loss before it is differentiated and divided out of the gradients, so that
  // small ones survive in f16: a number or a scalar f32 tensor, as LossScale keeps one.
  Operand loss_scale = 1;
  // Names of members that the function sees as they are: {"mean", "variance"} for the running
  // statistics of batch norms, which 16 bits would not move.
  std::vector<std::string> keep = {};
};

// How a loss scale moves.
struct LossScaleOptions {
  int64_t growth_interval = 2000;  // finite steps in a row after which it grows
  double growth = 2;               // by this factor
  double backoff = 0.5;            // its factor after a step that was not finite; it stays >= 1
};

namespace detail {

// f32 and f64 in the compute type; other leaves, and those that are kept, as they are. `path` is
// the leaf's place in its tree. UserError: no compute type.
GSPMD_API Tensor to_compute(const Tensor& x, const std::string& path, const Precision& precision,
                            Site site);
// A result in 16 bits as f32.
GSPMD_API Tensor from_compute(const Tensor& x, Site site);
GSPMD_API Tensor scaled_loss(const Tensor& loss, const Operand& scale, Site site);
// UserError: a scale that is no floating scalar.
GSPMD_API Tensor unscaled_gradient(const Tensor& gradient, const Operand& scale, Site site);
GSPMD_API void check_loss_scale(double scale, Site site);
GSPMD_API Tensor all_finite_leaves(const std::vector<Tensor>& leaves, Site site);
GSPMD_API Tensor select_leaf(const Tensor& pred, const Tensor& yes, const Tensor& no, Site site);
// {scale, steps} of the next step.
GSPMD_API std::pair<Tensor, Tensor> next_loss_scale(const Tensor& scale, const Tensor& steps,
                                                    const Tensor& finite,
                                                    const LossScaleOptions& options, Site site);

template <class Tree>
auto tree_to_compute(const Tree& tree, const Precision& precision, Site site) {
  if constexpr (std::is_same_v<leaf_t<Tree>, Tensor>)
    return map_tree(tree, [&](const std::string& path, const Tensor& leaf) {
      return to_compute(leaf, path, precision, site);
    });
  else
    return tree;
}

}  // namespace detail

// `fn` computed in another type: the floating leaves of its arguments are converted to it, results
// of that type come back as f32; the loss scale says nothing here. What must not lose digits inside
// of fn is converted there: cross_entropy(convert(logits, DType::f32), labels).
template <class Fn>
auto at_precision(Fn fn, const Precision& precision, Site site = Site::here()) {
  return [fn, precision, site](const auto&... args) {
    auto value = fn(detail::tree_to_compute(args, precision, site)...);
    return map_tree(value, [&](const std::string&, const Tensor& leaf) {
      return precision.compute == DType::f32 ? leaf : detail::from_compute(leaf, site);
    });
  };
}

// As value_and_grad(fn), with fn computed as `precision` says: one option makes a step of f32
// weights train in bf16 or f16. UserError: a compute type other than f32, bf16, f16.
template <size_t Argument = 0, size_t... Others, class Fn>
auto value_and_grad(Fn fn, const Precision& precision, Site site = Site::here()) {
  return [fn, precision, site](const auto&... args) {
    const auto scaled = [&](const auto&... inputs) {
      auto value = at_precision(fn, precision, site)(inputs...);
      const Tensor loss = detail::scaled_loss(detail::loss_of(value), precision.loss_scale, site);
      return std::pair{loss, std::move(value)};
    };
    auto [value, grads] = value_and_grad<Argument, Others...>(scaled, site)(args...);
    auto unscaled = map_tree(grads, [&](const std::string&, const Tensor& gradient) {
      return detail::unscaled_gradient(gradient, precision.loss_scale, site);
    });
    return std::pair{std::move(value.second), std::move(unscaled)};
  };
}

// Whether no leaf of a tree holds an infinity or a NaN: pred[].
template <class Tree>
Tensor all_finite(const Tree& tree, Site site = Site::here()) {
  return detail::all_finite_leaves(detail::tensors_of(tree), site);
}

// The leaves of `yes` where pred[] holds, else those of `no`: a step that is left out.
template <class Tree>
Tree select_tree(const Tensor& pred, const Tree& yes, const Tree& no, Site site = Site::here()) {
  return map_leaves(
      [&](const Tensor& a, const Tensor& b) { return detail::select_leaf(pred, a, b, site); }, yes,
      no);
}

// The state of a loss scale that follows the gradients: halved when one is not finite, doubled when
// all have been for long. As torch.amp.GradScaler.
//   auto [loss, grads] = value_and_grad(f, {.compute = DType::f16, .loss_scale = s.scale})(p, x);
//   const Tensor finite = all_finite(grads);
//   p = select_tree(finite, updated, p);
//   s = s.update(finite);
template <class T>
struct LossScale {
  T scale;  // f32[]
  T steps;  // s32[]: finite steps since it last changed
  GSPMD_FIELDS(scale, steps)

  // The state before the first step. UserError: a scale that is not positive.
  static LossScale<Array> initial(double scale = 32768, Site site = Site::here()) {
    detail::check_loss_scale(scale, site);
    return {Array::full(Shape(DType::f32, {}), scale), Array::full(Shape(DType::s32, {}), 0)};
  }
  // The scale after a step whose gradients were `finite`, pred[]. UserError: an interval below 1,
  // factors that are not positive numbers.
  LossScale update(const Tensor& finite, const LossScaleOptions& options = {},
                   Site site = Site::here()) const {
    const auto [next, count] = detail::next_loss_scale(scale, steps, finite, options, site);
    return {next, count};
  }
};

}  // namespace gspmd
