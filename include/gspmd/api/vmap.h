#pragma once

// A function on a whole batch, written for one element of it.

#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/control.h"
#include "gspmd/api/transform.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"
#include "gspmd/base/rare.h"

namespace gspmd {

// `not_batched` instead of an axis: one value for all of the batch.
struct NotBatched {
  explicit constexpr NotBatched() = default;
};
inline constexpr NotBatched not_batched{};  // the mark of what is one value for all of the batch

// Which dim of one tensor counts the batch.
struct BatchAxis {
  // --- Dim 0; a dim, negative ones from the end; none
  BatchAxis() = default;
  template <std::integral T>
  BatchAxis(T axis) : axis(static_cast<int64_t>(axis)) {}
  BatchAxis(NotBatched) : batched(false) {}

  int64_t axis = 0;     // negative: from the end
  bool batched = true;  // whether there is one
};

// The axes of a tree of tensors: one for all leaves; a list with an entry for each argument, or for
// each element of a tuple or vector: {0, not_batched, {1, 0}}; or a tree like it of BatchAxis.
class GSPMD_API BatchAxes {
 public:
  // --- One for all leaves; an entry for each part; a tree
  template <std::integral T>
  BatchAxes(T axis) : BatchAxes(BatchAxis(axis), ForAll()) {}
  BatchAxes(NotBatched none);
  BatchAxes(std::initializer_list<BatchAxes> parts);
  // --- Copies share what they hold
  BatchAxes(const BatchAxes& other);
  BatchAxes(BatchAxes&& other) noexcept;
  BatchAxes& operator=(const BatchAxes& other);
  BatchAxes& operator=(BatchAxes&& other) noexcept;
  ~BatchAxes();
  template <class Tree>
  requires std::same_as<leaf_t<Tree>, BatchAxis> BatchAxes(const Tree& tree)
      : leaves_(flatten(tree)) {}

  // That of the leaf at this path, "0.blocks.1.wq". UserError: there is none; `what` names the
  // leaf.
  BatchAxis at(const std::string& path, const std::string& what) const;
  // Number of entries of a list; -1: it is none.
  int64_t parts() const;

 private:
  struct ForAll {
    explicit ForAll() = default;
  };
  BatchAxes(BatchAxis axis, ForAll);

  Rare<std::vector<BatchAxes>> parts_;
  Rare<std::vector<std::pair<std::string, BatchAxis>>> leaves_;
  bool has_parts_ = false, one_for_all_ = false;
};

// How vmap() takes arguments and gives results.
struct VmapOptions {
  BatchAxes in_axes = 0;   // of the arguments
  BatchAxes out_axes = 0;  // of the results
  // The mesh axis over which annotations inside of the function split the batch; empty: they leave
  // it to completion.
  std::string mesh_axis = {};
};

namespace detail {

// A function that is traced on one element of a batch.
class GSPMD_API VmapTrace {
 public:
  VmapTrace(const PathLeaves& arguments, size_t count, const VmapOptions& options, Site site);
  VmapTrace(const VmapTrace&) = delete;
  VmapTrace& operator=(const VmapTrace&) = delete;
  ~VmapTrace();

  const std::vector<Tensor>& slices() const;  // the arguments inside
  std::vector<Tensor> finish(const PathLeaves& results);

 private:
  struct Impl;
  Owned<Impl> impl_;
};

}  // namespace detail

// A function like `fn` on arguments that have one more dim, which counts the batch: what fn does is
// done once, on the whole batch. Results get the dim as well; what does not depend on the batch is
// computed once and repeated. Loops run while any element needs them, and branches by a selector
// that depends on the batch are all run. UserError: sizes that differ, an operation that cannot be
// batched, a layout inside of fn that uses the mesh axis of the batch. As jax.vmap.
template <class Fn>
auto vmap(Fn fn, VmapOptions options = {}, Site site = Site::here()) {
  return [fn, options, site](const auto&... args) {
    if constexpr (detail::check_transformed<Fn, std::decay_t<decltype(args)>...>()) {
      detail::VmapTrace trace(detail::leaves_of_arguments(args...), sizeof...(args), options, site);
      const auto result = std::apply(fn, detail::arguments_with(trace.slices(), args...));
      return detail::with_leaves(result, trace.finish(flatten(result)));
    }
  };
}

}  // namespace gspmd
