#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// A tree that is known by its paths only, as flatten() gives it.
template <class T>
using Leaves = std::vector<std::pair<std::string, T>>;

// The tree of `like`'s structure (a tree of Shape, say) with the leaves of the same paths, in its
// order. UserError: a path that only one of the two has.
template <class Leaf, class Tree>
rebind_t<Tree, Leaf> tree_of(const Tree& like, const Leaves<Leaf>& leaves);

// What a model says of a batch, traced.
struct Objective {
  Tensor loss;             // scalar: a mean over the batch
  Leaves<Tensor> metrics;  // scalars that a run reports, as the share of dropped tokens
  Leaves<Tensor> state;    // the next state, leaf by leaf that of state_shapes()
};

// A model as a trainer, a checkpoint and an example's front see it: trees by path, code for one
// device. What it is annotated with is its own: a mesh and a layout that it was made with.
class Model {
 public:
  virtual ~Model() = default;

  virtual Leaves<Shape> parameter_shapes() const = 0;
  // A pure function of the model and the seed; a trainer calls it while it traces the objective.
  virtual Leaves<Array> initial_parameters(uint32_t seed) const = 0;
  // What changes and is not trained, as the running averages of batch norm.
  virtual Leaves<Shape> state_shapes() const { return {}; }
  virtual Leaves<Array> initial_state() const;  // zeros

  // What a step reads: leaves whose dim 0 counts the `rows`, and scalars that all rows share, as a
  // seed s32[].
  virtual Leaves<Shape> batch_shapes(int64_t rows) const = 0;
  virtual Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                              const Leaves<Tensor>& batch) const = 0;
  // For evaluation: sums over the batch by name, of which `count` is that of what is averaged; rows
  // of weight 0 (f32[rows]) are padding and count for nothing. Empty: there is none.
  virtual Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                                  const Leaves<Tensor>& batch, const Tensor& weight) const;

  // Floating point operations of one forward and backward pass over `rows` examples.
  virtual double training_flops(int64_t rows) const = 0;
  // Elements of the values of a forward pass over `rows` examples that its gradient reads again, as
  // text books count them: what products, norms and activations read, nothing made again. 0: not
  // known.
  virtual double kept_activations(int64_t /*rows*/) const { return 0; }
};

// Number of elements of all leaves.
int64_t elements_count(const Leaves<Shape>& shapes);

// --- implementation ---

namespace detail {
[[noreturn]] void paths_differ(const std::string& wanted, const std::string& given);
}  // namespace detail

template <class Leaf, class Tree>
rebind_t<Tree, Leaf> tree_of(const Tree& like, const Leaves<Leaf>& leaves) {
  size_t next = 0;
  auto tree = map_tree(like, [&](const std::string& path, const auto&) -> Leaf {
    const std::string given = next < leaves.size() ? leaves[next].first : std::string();
    if (given != path) detail::paths_differ(path, given);
    return leaves[next++].second;
  });
  if (next < leaves.size()) detail::paths_differ({}, leaves[next].first);
  return tree;
}

}  // namespace gspmd::models
