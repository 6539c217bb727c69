#pragma once

// Trees of arrays saved to safetensors files and restored onto any mesh, one by one or as the
// checkpoints of a run.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gspmd/api/tree.h"
#include "gspmd/base/array.h"
#include "gspmd/base/error.h"
#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// How a file is read into a tree.
struct LoadOptions {
  std::string prefix = {};     // of every name: "params" for a tree saved as a field of that name
  bool ignore_others = false;  // false: tensors of the file that the tree lacks are an error
  // Where arrays go, by the leaf's path (without prefix) and shape, on num_devices devices; absent:
  // beside the array they replace if that is on devices, else on the host. For a compiled step:
  //   [&](const std::string& path, const Shape&) { return step.parameter_sharding("params." +
  //   path); }
  std::function<Sharding(const std::string& path, const Shape& shape)> sharding = {};
  int64_t num_devices = 1;  // that `sharding` is for
};

namespace detail {

using Leaves = std::vector<std::pair<std::string, Array>>;

// A leaf to be read: what it must be, and where it goes.
struct WantedLeaf {
  std::string name;
  Shape shape;
  Array like = {};  // the array it replaces, empty where there is none
};

GSPMD_API void save_leaves(const std::string& path, const Leaves& leaves,
                           const std::map<std::string, std::string>& metadata, Site site);
GSPMD_API std::vector<Array> load_leaves(const std::string& path,
                                         const std::vector<WantedLeaf>& wanted,
                                         const LoadOptions& options, Site site);

// f(path, leaf&) on every leaf, also below structs with GSPMD_FIELDS that are no templates.
template <class Tree, class F>
void each_stored_leaf(Tree& tree, F& f, const std::string& path = {}) {
  for_each_leaf(
      tree,
      [&](const std::string& at, auto& leaf) {
        using Leaf = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (HasFields<Leaf>) {
          check_fields<Leaf, Array>();
          std::apply(
              [&](auto&... field) {
                size_t i = 0;
                (each_stored_leaf(field, f,
                                  join_path(at, field_name(Leaf::gspmd_field_names(), i++))),
                 ...);
              },
              leaf.gspmd_fields());
        } else {
          f(at.empty() ? "value" : at, leaf);
        }
      },
      path);
}

template <class Leaf>
constexpr bool is_stored_leaf =
    std::is_same_v<Leaf, Array> || std::is_same_v<Leaf, Shape> || std::is_arithmetic_v<Leaf>;

template <class Number>
Array number_array(Number number) {
  if constexpr (std::is_same_v<Number, bool> || std::is_floating_point_v<Number>) {
    return Array::scalar(number);
  } else if constexpr (std::is_signed_v<Number>) {
    return Array::scalar(static_cast<int64_t>(number));
  } else {
    return Array::scalar(static_cast<uint64_t>(number));
  }
}

template <class Tree>
Leaves stored_leaves(const Tree& tree) {
  late_t<Leaves, Tree> leaves;
  const auto add = [&](const std::string& path, const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    static_assert(is_stored_leaf<Leaf> && !std::is_same_v<Leaf, Shape>,
                  "save: leaves are Array or C++ numbers");
    if constexpr (std::is_same_v<Leaf, Array>)
      leaves.emplace_back(path, leaf);
    else
      leaves.emplace_back(path, number_array(leaf));
  };
  each_stored_leaf(tree, add);
  return leaves;
}

template <class Tree>
std::vector<WantedLeaf> wanted_leaves(const Tree& tree) {
  late_t<std::vector<WantedLeaf>, Tree> wanted;
  const auto add = [&](const std::string& path, const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    static_assert(is_stored_leaf<Leaf>, "load: leaves are Array, Shape or C++ numbers");
    if constexpr (std::is_same_v<Leaf, Array>)
      wanted.push_back({path, leaf.shape(), leaf});
    else if constexpr (std::is_same_v<Leaf, Shape>)
      wanted.push_back({path, leaf});
    else
      wanted.push_back({path, number_array(leaf).shape()});
  };
  each_stored_leaf(tree, add);
  return wanted;
}

}  // namespace detail

// Writes all leaves of a tree into one file, or by several processes into a set of files. A
// tensor's name is the leaf's path: "layers.0.w_in" for field w_in of element 0 of field layers.
// Leaves are arrays, on the host or on devices, and C++ numbers, which are stored as arrays without
// dims (s64, u64, f32, f64, pred). What lies on devices is gathered leaf by leaf. The file appears
// whole or not at all (written aside, synced, renamed), with a checksum of every tensor and of the
// header. `metadata` is text by name beside the tensors. UserError: what cannot be written, and
// why.
//
// In a job of several processes all call it, on a folder that all see. Each writes shards that it
// has, and no other process the same, into a file "NAME.part-2-of-4-ID.safetensors" beside `path`,
// a tensor for each: "w[0:4,8:16]" for a box of "w". When all are on the disk, the first process
// writes the index of them under `path`: then the set is there, whole, for all, and parts of an
// older one of that path go. Where it writes all, there is one file as in one process. Both are
// read alike, in any number of processes. UserError in all, where one fails, with its number.
template <class Tree>
void save(const std::string& path, const Tree& tree,
          const std::map<std::string, std::string>& metadata = {}, Site site = Site::here()) {
  detail::save_leaves(path, detail::stored_leaves(tree), metadata, site);
}

// Reads a file, or the set of files whose index it is, into a tree of the same names, shapes and
// dtypes, whatever mesh it was saved from; the tree is left as it is where that fails. UserError
// naming file, tensor and both shapes: tensors that differ, are missing, or are in the file only; a
// damaged file; a part of the set that is missing, truncated or of another set. Where leaves lie on
// devices of several processes, all call it, each reads what its devices have, and all fail where
// one does.
template <class Tree>
void load_into(const std::string& path, Tree& tree, const LoadOptions& options = {},
               Site site = Site::here()) {
  const auto arrays = detail::load_leaves(path, detail::wanted_leaves(tree), options, site);
  size_t next = 0;
  const auto take = [&](const std::string&, auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    static_assert(!std::is_same_v<Leaf, Shape>, "load_into: leaves are Array or C++ numbers");
    const Array& array = arrays[next++];
    if constexpr (std::is_same_v<Leaf, Array>)
      leaf = array;
    else if constexpr (std::is_same_v<Leaf, bool> || std::is_floating_point_v<Leaf>)
      leaf = array.template data<Leaf>()[0];
    else
      leaf = static_cast<Leaf>(
          array.template data<std::conditional_t<std::is_signed_v<Leaf>, int64_t, uint64_t>>()[0]);
  };
  detail::each_stored_leaf(tree, take);
}

// The same as a new tree; `like` has arrays or shapes as leaves.
template <class Tree>
rebind_t<Tree, Array> load(const std::string& path, const Tree& like,
                           const LoadOptions& options = {}, Site site = Site::here()) {
  const auto arrays = detail::load_leaves(path, detail::wanted_leaves(like), options, site);
  size_t next = 0;
  return map_tree(like, [&](const std::string&, const leaf_t<Tree>&) { return arrays[next++]; });
}

// How a folder of checkpoints is kept.
struct CheckpointOptions {
  int64_t keep = 3;  // how many of the newest stay, at least 1
  // Damaged files that were passed over, what could not be removed.
  std::function<void(const std::string& message)> log = {};
};

// A folder of checkpoints, one file a step: "step-000123.safetensors", with its parts where several
// processes saved it. An older one is removed, with all of its parts, only when a newer one is
// whole on the disk. One job writes at a time; its processes make the same calls.
class GSPMD_API Checkpoints {
 public:
  // Makes the folder where there is none, and removes the unfinished files of killed writers.
  // UserError: the folder cannot be made or read, keep < 1.
  explicit Checkpoints(std::string folder, CheckpointOptions options = {},
                       Site site = Site::here());

  std::vector<int64_t> steps() const;    // of the files there are, ascending; nothing is read
  std::string path(int64_t step) const;  // of the file of a step
  // The newest that is whole: all checksums hold. Damaged ones before it are logged, each once.
  // nullopt where there are no files; UserError where none of them is whole.
  std::optional<int64_t> newest(Site site = Site::here());

  // As gspmd::save into path(step); then removes older ones beyond those to keep.
  template <class Tree>
  void save(int64_t step, const Tree& tree, const std::map<std::string, std::string>& metadata = {},
            Site site = Site::here()) {
    check_step(step, site);
    gspmd::save(path(step), tree, metadata, site);
    remove_older(step);
  }
  // load_into of the newest whole one; returns its step, nullopt and the tree unchanged where there
  // are no files. A tree that does not fit the newest is an error: no older one is tried.
  template <class Tree>
  std::optional<int64_t> restore(Tree& tree, const LoadOptions& options = {},
                                 Site site = Site::here()) {
    const std::optional<int64_t> step = newest(site);
    if (step) load_into(path(*step), tree, options, site);
    return step;
  }

 private:
  void check_step(int64_t step, Site site) const;
  void verify(int64_t step) const;
  std::vector<int64_t> steps_of_job() const;
  void remove_older(int64_t step);

  std::string folder_;
  CheckpointOptions options_;
  std::map<std::string, std::string> damaged_;  // what was logged of each, by path()
};

// The metadata that `save` was given.
GSPMD_API std::map<std::string, std::string> saved_metadata(const std::string& path,
                                                            Site site = Site::here());

}  // namespace gspmd
