#pragma once

// What each device does, as a function of functions: shard_map, and the collectives in it.

#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/annotate.h"
#include "gspmd/api/control.h"
#include "gspmd/api/transform.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"
#include "gspmd/base/rare.h"

namespace gspmd {

// How the tensors of a tree are cut: {"data", _} for a tensor of rows and columns, with an entry
// for each dim as in mesh_split, and dims behind the last entry not cut ({}: none is). One layout
// is for all tensors of a tree; where arguments, or elements of a tuple or vector, have one each,
// it is a list of them: {{"data", _}, {}}; a list that has lists only is read so. Or a tree like
// the values whose leaves are SplitDims.
class GSPMD_API ShardSpecs {
 public:
  // --- What stands in a list: a dim that is not cut, one cut over an axis; a list; a tree
  ShardSpecs(Unsplit);
  ShardSpecs(const char* axis);
  ShardSpecs(const std::string& axis);
  ShardSpecs(std::initializer_list<ShardSpecs> parts);
  template <class Tree>
  requires std::same_as<leaf_t<Tree>, SplitDims> ShardSpecs(const Tree& tree)
      : kind_(Kind::tree), leaves_(flatten(tree)) {}
  // --- Copies share what they hold
  ShardSpecs(const ShardSpecs& other);
  ShardSpecs(ShardSpecs&& other) noexcept;
  ShardSpecs& operator=(const ShardSpecs& other);
  ShardSpecs& operator=(ShardSpecs&& other) noexcept;
  ~ShardSpecs();

  // The layout of the leaf at this path, "0.blocks.1.wq". UserError: there is none; `what` names
  // the leaf.
  std::vector<DimSplit> at(const std::string& path, const std::string& what) const;
  // Number of layouts in a list of them; -1: it is none.
  int64_t parts() const;

 private:
  enum class Kind : uint8_t { list, unsplit, axis, tree };
  bool is_list_of_layouts() const;
  std::vector<DimSplit> layout(const std::string& what) const;

  Kind kind_ = Kind::list;
  std::string axis_;
  Rare<std::vector<ShardSpecs>> parts_;
  Rare<std::vector<std::pair<std::string, SplitDims>>> leaves_;
};

// One mesh axis or several, major first: "data", {"data", "model"}. An own type, because {"a", "b"}
// would make a std::string from two iterators.
class GSPMD_API AxisNames {
 public:
  // --- One; several
  AxisNames(const char* axis);
  AxisNames(const std::string& axis);
  AxisNames(std::initializer_list<const char*> axes);
  AxisNames(const std::vector<std::string>& axes);
  const std::vector<std::string>& names() const { return names_; }  // major first

 private:
  std::vector<std::string> names_;
};

// What shard_map() is told beside the layouts.
struct ShardMapOptions {
  // Whether a result that out_specs does not cut over a manual axis has to be the same on all
  // devices along it for reasons that can be seen: it is made of what is not cut over the axis, of
  // constants, and of results of psum, pmean, pmax, pmin and all_gather over it. False: it is
  // believed; what is outside then, where devices differ, is not defined. As jax.shard_map.
  bool check_vma = true;
};

namespace detail {

// A function that is traced on the parts of one device.
class GSPMD_API ShardMapTrace {
 public:
  struct Layouts {
    const ShardSpecs& in;
    const ShardSpecs& out;
  };
  ShardMapTrace(const PathLeaves& arguments, size_t count, const Mesh& mesh, const Layouts& layouts,
                const std::vector<std::string>& axes, const ShardMapOptions& options, Site site);
  ShardMapTrace(const ShardMapTrace&) = delete;
  ShardMapTrace& operator=(const ShardMapTrace&) = delete;
  ~ShardMapTrace();

  const std::vector<Tensor>& shards() const;  // the arguments inside
  std::vector<Tensor> finish(const PathLeaves& results);

 private:
  struct Impl;
  Owned<Impl> impl_;
};

}  // namespace detail

// A function like `fn` on whole tensors, where fn says what one device does with its parts: along
// the mesh axes `axes` (none given: all) it is manual, and values are what one device has; along
// the others partitioning stays automatic. in_specs: how the arguments are cut; out_specs: how the
// results are put together. What fn reads from around it every device has as a whole; mesh_split in
// fn speaks of the automatic axes.
//
// Derivatives are those of the function on whole tensors. Inside of fn, grad() of a device's loss
// takes each device's value for one of its own: the transpose of psum is psum, so take the gradient
// of a loss without psum and pmean what comes out.
//
// UserError: an axis that the mesh lacks, a dim that the manual axes do not divide, more entries
// than dims, a result that may differ along an axis over which it is not cut (check_vma), a
// collective that only some of its devices reach, a shard_map in another. As jax.shard_map.
template <class Fn>
auto shard_map(Fn fn, const Mesh& mesh, ShardSpecs in_specs, ShardSpecs out_specs,
               std::vector<std::string> axes = {}, ShardMapOptions options = {},
               Site site = Site::here()) {
  return [=](const auto&... args) {
    if constexpr (detail::check_transformed<Fn, std::decay_t<decltype(args)>...>()) {
      detail::ShardMapTrace trace(detail::leaves_of_arguments(args...), sizeof...(args), mesh,
                                  {in_specs, out_specs}, axes, options, site);
      const auto result = std::apply(fn, detail::arguments_with(trace.shards(), args...));
      return detail::with_leaves(result, trace.finish(flatten(result)));
    }
  };
}

// --- Collectives, in the function given to shard_map only, over manual axes of it. All devices
// along the axes have to reach them. UserError: outside of shard_map, an axis that is not manual,
// dtypes and sizes that do not fit. As the functions of these names in jax.lax.

// The sum over the devices along `axes`; all of them get it.
GSPMD_API Tensor psum(Operand x, const AxisNames& axes);
GSPMD_API Tensor pmean(Operand x, const AxisNames& axes);  // psum, divided by their number
// The largest, or the smallest, element by element. Devices that have it share its cotangent
// equally, as equal elements of max() do.
GSPMD_API Tensor pmax(Operand x, const AxisNames& axes);
GSPMD_API Tensor pmin(Operand x, const AxisNames& axes);  // the smallest, as pmax

// How all_gather() and psum_scatter() change the shape.
struct GatherOptions {
  int64_t axis = 0;    // the dim; negative: from the end
  bool tiled = false;  // true: the dim grows or shrinks; false: it is a dim of its own
};
// What all devices along `axes` have, side by side: [n, ...] with a new dim `axis` of n devices,
// or, tiled, dim `axis` n times as large.
GSPMD_API Tensor all_gather(Operand x, const AxisNames& axes, const GatherOptions& options = {});
// psum, of which each device keeps its part of dim `axis`: tiled the n-th part, else the element
// (the dim then has n elements and goes).
GSPMD_API Tensor psum_scatter(Operand x, const AxisNames& axes, const GatherOptions& options = {});

// What all_to_all() cuts and joins.
struct AllToAllOptions {
  int64_t split_axis = 0;   // the dim whose pieces go to the devices; negative: from the end
  int64_t concat_axis = 0;  // the dim along which pieces come together
  bool tiled = false;       // false: split_axis has n elements and goes, concat_axis is new
};
// Piece number i of every device goes to device i along `axes`.
GSPMD_API Tensor all_to_all(Operand x, const AxisNames& axes, const AllToAllOptions& options = {});

// What device `source` has goes to device `target` along `axes`, for each pair {source, target} of
// `permutation`; zeros where nobody sends. No source and no target stands there twice.
GSPMD_API Tensor ppermute(Operand x, const AxisNames& axes,
                          const std::vector<std::pair<int64_t, int64_t>>& permutation);

// The number of this device along `axes`: s32[], from 0.
GSPMD_API Tensor axis_index(const AxisNames& axes, Site site = Site::here());
// How many devices there are along `axes`; a C++ number.
GSPMD_API int64_t axis_size(const AxisNames& axes, Site site = Site::here());

namespace detail {
template <class Tree>
concept TreeOfTensors = std::same_as<leaf_t<Tree>, Tensor> && !std::same_as<Tree, Tensor>;
}  // namespace detail

// --- The same, of every tensor of a tree
template <detail::TreeOfTensors Tree>
Tree psum(const Tree& tree, const AxisNames& axes, Site site = Site::here()) {
  return map_leaves([&](const Tensor& x) { return psum(Operand(x, site), axes); }, tree);
}
template <detail::TreeOfTensors Tree>
Tree pmean(const Tree& tree, const AxisNames& axes, Site site = Site::here()) {
  return map_leaves([&](const Tensor& x) { return pmean(Operand(x, site), axes); }, tree);
}
template <detail::TreeOfTensors Tree>
Tree pmax(const Tree& tree, const AxisNames& axes, Site site = Site::here()) {
  return map_leaves([&](const Tensor& x) { return pmax(Operand(x, site), axes); }, tree);
}
template <detail::TreeOfTensors Tree>
Tree pmin(const Tree& tree, const AxisNames& axes, Site site = Site::here()) {
  return map_leaves([&](const Tensor& x) { return pmin(Operand(x, site), axes); }, tree);
}
template <detail::TreeOfTensors Tree>
Tree all_gather(const Tree& tree, const AxisNames& axes, const GatherOptions& options = {},
                Site site = Site::here()) {
  return map_leaves([&](const Tensor& x) { return all_gather(Operand(x, site), axes, options); },
                    tree);
}
template <detail::TreeOfTensors Tree>
Tree ppermute(const Tree& tree, const AxisNames& axes,
              const std::vector<std::pair<int64_t, int64_t>>& permutation,
              Site site = Site::here()) {
  return map_leaves([&](const Tensor& x) { return ppermute(Operand(x, site), axes, permutation); },
                    tree);
}

}  // namespace gspmd
