#include <algorithm>
#include <unordered_map>

#include "passes/shardy/prepare.h"

// Where the axes of completed shardings came from.

namespace gspmd {
namespace {

// The part of an axis that both have; of axes that overlap.
SdyAxis common_part(const SdyAxis& a, const SdyAxis& b) {
  const int64_t pre = std::max(a.pre, b.pre);
  return {a.axis, pre, std::min(a.pre * a.size, b.pre * b.size) / pre};
}

// The parts of `axis` that `other`, which overlaps it, leaves.
SdyAxes rest_of(const SdyAxis& axis, const SdyAxis& other) {
  SdyAxes rest;
  const SdyAxis common = common_part(axis, other);
  const int64_t end = axis.pre * axis.size, common_end = common.pre * common.size;
  if (common.pre > axis.pre) rest.push_back({axis.axis, axis.pre, common.pre / axis.pre});
  if (end > common_end) rest.push_back({axis.axis, common_end, end / common_end});
  return rest;
}

class OriginWriter {
 public:
  explicit OriginWriter(const SdyProgram& program) : program_(program) {
    named_.resize(program.slots.size(), nullptr);
    for (const SdyFunction& function : program.functions)
      for (const SdyResult& result : function.results)
        if (result.call != nullptr) {
          results_[result.call] = result.result;
          name(result.result, *result.call);
        }
    for (const Node* node : program.written)
      for (const SdyLeaf& leaf : program.leaves.at(node)) name(slot_of(leaf), *node);
    for (const auto* borders : {&program.in_borders, &program.out_borders})
      for (const SdyBorder& border : *borders)
        for (const int64_t slot : border.outside) name(slot, *border.node);
  }

  void write(Node& node) {
    node.origins.clear();
    const auto found = program_.leaves.find(&node);
    if (found == program_.leaves.end() || !node.sharding) return;
    for (size_t i = 0; i < found->second.size(); ++i)
      write_leaf(node, static_cast<int64_t>(i), slot_of(found->second[i]));
  }

 private:
  const SdySlot& slot(int64_t i) const { return program_.slots.at(static_cast<size_t>(i)); }

  int64_t slot_of(const SdyLeaf& leaf) const {
    const auto result = results_.find(leaf.result_call);
    return result != results_.end() ? result->second
                                    : program_.values.at(static_cast<size_t>(leaf.value)).slot;
  }

  // The node that a slot is called by: the first in the text.
  void name(int64_t slot, const Node& node) {
    const Node*& named = named_.at(static_cast<size_t>(slot));
    if (named == nullptr) named = &node;
  }

  void write_leaf(Node& node, int64_t leaf, int64_t index) {
    const std::optional<SdySharding>& sharding = slot(index).sharding;
    if (!sharding || program_.meshes[sharding->mesh].axes.empty()) return;
    for (size_t d = 0; d < sharding->dims.size(); ++d)
      for (const SdyAxis& axis : sharding->dims[d].axes)
        write_axis(node, leaf, index, static_cast<int64_t>(d), axis);
  }

  // Part by part, as each was taken; what was not taken was given.
  void write_axis(Node& node, int64_t leaf, int64_t index, int64_t dim, const SdyAxis& axis) {
    const SdyMesh& mesh = program_.meshes[slot(index).sharding->mesh];
    const auto add = [&](const SdyAxis& part, int64_t source) {
      const Node* const from = source < 0 ? nullptr : named_.at(static_cast<size_t>(source));
      const Node* const own = named_.at(static_cast<size_t>(index));
      const Node* const first = named_.at(static_cast<size_t>(annotated(index, part)));
      if (first == nullptr) return;
      // A node that shares the slot of the one that it is called by came through that.
      const Node* const via = from != nullptr ? from : own != &node ? own : nullptr;
      node.origins.push_back(
          {leaf, dim, to_digit(mesh, part), first->name(), via == nullptr ? "" : via->name()});
    };
    SdyAxes given = {axis};
    for (const SdyTaken& taken : slot(index).taken) {
      if (taken.dim != dim) continue;
      SdyAxes left;
      for (const SdyAxis& part : given) {
        if (!overlap(part, taken.axis)) {
          left.push_back(part);
          continue;
        }
        add(common_part(part, taken.axis), taken.source);
        for (const SdyAxis& rest : rest_of(part, taken.axis)) left.push_back(rest);
      }
      given = std::move(left);
    }
    for (const SdyAxis& part : given) add(part, -1);
  }

  // The slot that an axis was first in: along what was taken, once for each slot and axis.
  int64_t annotated(int64_t index, const SdyAxis& axis) {
    std::vector<int64_t> path;
    int64_t at = index;
    while (true) {
      const auto known = annotated_.find({at, axis.axis, axis.pre});
      if (known != annotated_.end()) {
        at = known->second;
        break;
      }
      const auto& taken = slot(at).taken;
      const auto found = std::find_if(taken.begin(), taken.end(), [&](const SdyTaken& one) {
        return overlap(one.axis, axis) && one.source >= 0;
      });
      if (found == taken.end() || path.size() > program_.slots.size()) break;
      path.push_back(at);
      at = found->source;
    }
    for (const int64_t passed : path) annotated_[{passed, axis.axis, axis.pre}] = at;
    return at;
  }

  struct Key {
    int64_t slot, axis, pre;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return std::hash<int64_t>()((key.slot * 1031 + key.axis) * 8191 + key.pre);
    }
  };

  const SdyProgram& program_;
  std::vector<const Node*> named_;
  std::unordered_map<const Node*, int64_t> results_;
  std::unordered_map<Key, int64_t, Hash> annotated_;
};

}  // namespace

void note_taken(SdySlot& slot, const SdySharding& next,
                const std::function<int64_t(size_t dim, const SdyAxis& axis)>& source) {
  for (size_t d = 0; d < next.dims.size(); ++d) {
    SdyAxes added = next.dims[d].axes;
    if (slot.sharding && d < slot.sharding->dims.size())
      for (const SdyAxis& old : slot.sharding->dims[d].axes) {
        SdyAxes left;
        for (const SdyAxis& part : added)
          if (overlap(part, old))
            for (const SdyAxis& rest : rest_of(part, old)) left.push_back(rest);
          else
            left.push_back(part);
        added = std::move(left);
      }
    for (const SdyAxis& axis : added)
      if (const int64_t from = source(d, axis); from >= 0)
        slot.taken.push_back({static_cast<int64_t>(d), axis, from});
  }
}

void write_origins(Module& module, const SdyProgram& program) {
  OriginWriter writer(program);
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) writer.write(*node);
}

}  // namespace gspmd
