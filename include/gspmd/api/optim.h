#pragma once

// Optimizers: pure functions from parameters, gradients and state to new parameters and state.

#include <concepts>
#include <utility>

#include "gspmd/api/shaping.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {
// Zeros of a leaf's kind: an array on the host, the shape itself, a tensor of the trace.
inline Array zero_leaf(const Array& like) { return Array(like.shape()); }
inline Shape zero_leaf(const Shape& like) { return like; }
inline Tensor zero_leaf(const Tensor& like) { return zeros_like(like); }
template <class Leaf>
Leaf zero_count();  // s32[], a step counter
template <>
Array zero_count<Array>();
template <>
Shape zero_count<Shape>();
template <>
Tensor zero_count<Tensor>();

template <class Tree>
Tree zero_tree(const Tree& like) {
  return map_tree(like,
                  [](const std::string&, const leaf_t<Tree>& leaf) { return zero_leaf(leaf); });
}
// UserError at `site` where two lists of leaf paths differ.
GSPMD_API void check_leaves(const std::vector<std::string>& params,
                            const std::vector<std::string>& other, const char* op, const char* what,
                            Site site);

template <class Tree>
std::vector<std::string> leaf_paths(const Tree& tree) {
  std::vector<std::string> paths;
  for_each_leaf(tree, [&](const std::string& path, const auto&) { paths.push_back(path); });
  return paths;
}
template <class Tree>
void check_tree(const Tree& params, const Tree& other, const char* op, const char* what,
                Site site) {
  check_leaves(leaf_paths(params), leaf_paths(other), op, what, site);
}
}  // namespace detail

// Stochastic gradient descent with momentum.
struct SgdOptions {
  Operand lr = 1e-2;        // learning rate: a number, or a scalar tensor
  double momentum = 0.9;    // 0: none
  double weight_decay = 0;  // added to the gradient
};

// One leaf's new values.
struct SgdLeaf {
  Tensor param, velocity;  // of the leaf's shape
};
// One leaf's new values.
struct AdamLeaf {
  Tensor param, m, v;  // of the leaf's shape
};
// One leaf of Sgd::update; all tensors have the leaf's shape.
GSPMD_API SgdLeaf sgd_update(Tensor param, Tensor grad, Tensor velocity, const SgdOptions& options,
                             Site site);

// velocity = momentum * velocity + grad; param -= lr * velocity.
template <class Tree>
struct Sgd {
  Tree velocity;  // one per parameter, of its shape
  GSPMD_FIELDS(velocity)

  // The state before the first step.
  static Sgd zeros_like(const Tree& params) { return {detail::zero_tree(params)}; }
  // {new params, new state}
  std::pair<Tree, Sgd> update(const Tree& params, const Tree& grads, const SgdOptions& options = {},
                              Site site = Site::here()) const {
    detail::check_tree(params, grads, "sgd", "gradients", site);
    detail::check_tree(params, velocity, "sgd", "velocities", site);
    const auto leaves =
        map_leaves([&](const Tensor& p, const Tensor& g,
                       const Tensor& v) { return sgd_update(p, g, v, options, site); },
                   params, grads, velocity);
    return {map_leaves([](const SgdLeaf& leaf) { return leaf.param; }, leaves),
            {map_leaves([](const SgdLeaf& leaf) { return leaf.velocity; }, leaves)}};
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
// One leaf of Adam::update (or of AdamW::update where `decoupled`); `step` counts from 1.
GSPMD_API AdamLeaf adam_update(Tensor param, Tensor grad, Tensor m, Tensor v, Tensor step,
                               bool decoupled, const AdamOptions& options, Site site);
GSPMD_API Tensor next_step(Tensor step, Site site);  // step + 1

namespace detail {
template <class State, class Tree>
std::pair<Tree, State> update_adam(const State& state, const Tree& params, const Tree& grads,
                                   bool decoupled, const AdamOptions& options, Site site) {
  check_tree(params, grads, "adam", "gradients", site);
  check_tree(params, state.m, "adam", "first moments", site);
  check_tree(params, state.v, "adam", "second moments", site);
  const Tensor step = next_step(state.step, site);
  const auto leaves = map_leaves(
      [&](const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v) {
        return adam_update(p, g, m, v, step, decoupled, options, site);
      },
      params, grads, state.m, state.v);
  return {map_leaves([](const AdamLeaf& leaf) { return leaf.param; }, leaves),
          {map_leaves([](const AdamLeaf& leaf) { return leaf.m; }, leaves),
           map_leaves([](const AdamLeaf& leaf) { return leaf.v; }, leaves), step}};
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
    return {detail::zero_tree(params), detail::zero_tree(params),
            detail::zero_count<leaf_t<Tree>>()};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, Adam> update(const Tree& params, const Tree& grads,
                               const AdamOptions& options = {}, Site site = Site::here()) const {
    return detail::update_adam(*this, params, grads, false, options, site);
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
    return {detail::zero_tree(params), detail::zero_tree(params),
            detail::zero_count<leaf_t<Tree>>()};
  }
  // {new params, new state}. UserError where the trees of params, grads and state differ.
  std::pair<Tree, AdamW> update(const Tree& params, const Tree& grads,
                                const AdamOptions& options = {}, Site site = Site::here()) const {
    return detail::update_adam(*this, params, grads, true, options, site);
  }
};

// sqrt of the sum of squares of all leaves.
GSPMD_API Tensor global_norm(const std::vector<Tensor>& leaves, Site site = Site::here());
// As global_norm, of a tree of tensors.
template <class Tree>
Tensor global_norm_of(const Tree& tree, Site site = Site::here()) {
  std::vector<Tensor> leaves;
  for_each_leaf(tree, [&](const std::string&, const Tensor& leaf) { leaves.push_back(leaf); });
  return global_norm(leaves, site);
}
GSPMD_API Tensor clip_factor(Tensor norm, Operand max_norm, Site site);  // min(1, max_norm / norm)
// Leaf * factor, in the leaf's dtype.
GSPMD_API Tensor scale_leaf(Tensor leaf, Tensor factor, Site site);

// {the tree scaled so that its global norm is at most max_norm, the norm before}.
template <class Tree>
std::pair<Tree, Tensor> clip_by_global_norm(const Tree& tree, Operand max_norm,
                                            Site site = Site::here()) {
  const Tensor norm = global_norm_of(tree, site);
  const Tensor factor = clip_factor(norm, max_norm, site);
  return {map_leaves([&](const Tensor& leaf) { return scale_leaf(leaf, factor, site); }, tree),
          norm};
}

}  // namespace gspmd
