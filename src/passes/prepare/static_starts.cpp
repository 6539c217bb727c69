#include "passes/prepare/static_starts.h"

#include <algorithm>
#include <optional>

#include "gspmd/ops/builders.h"
#include "ops/common/loops.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

constexpr int64_t kMostPositions = int64_t(1) << 31;  // of s32

// The start along dim d, whose index is operand `first + d`: 0 where all is taken; nullopt where it
// is not known.
std::optional<int64_t> start_of(const Node& node, int64_t first, int64_t d, int64_t dim,
                                int64_t size) {
  if (size == dim) return 0;
  const Node* index = node.operand(first + d);
  while (index->is(Opcode::copy) || index->is(Opcode::reshape)) index = index->operand(0);
  if (!index->is(Opcode::constant)) return std::nullopt;
  return clamped_start(index->attrs.literal, 0, dim, size);
}

std::optional<Dims> starts_of(const Node& node, int64_t first, const Dims& dims,
                              const Dims& sizes) {
  Dims starts;
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto start = start_of(node, first, static_cast<int64_t>(d), dims[d], sizes[d]);
    if (!start || dims[d] >= kMostPositions) return std::nullopt;
    starts.push_back(*start);
  }
  return starts;
}

bool is_laid_out(const Node& node) {
  return node.sharding && node.sharding->is_tiled() && node.sharding->order();
}

// A node of another kind under the name, and with the readers, of `node`.
void replace(Node& node, Opcode opcode, std::vector<Node*> operands, Attributes attrs) {
  Computation& c = node.parent();
  const std::string name = node.name();
  c.rename(&node, name + ".dynamic");
  Node* made = c.append_as(name, opcode, node.shape, std::move(operands), std::move(attrs));
  copy_annotations(node, *made);
  c.replace_uses(&node, made);
}

// Whether whole and part are both split along a dim in which they differ.
bool split_alike(const Node& whole, const Node& part) {
  if (!is_laid_out(whole) || !is_laid_out(part)) return false;
  for (int64_t d = 0; d < whole.rank(); ++d)
    if (part.dim(d) != whole.dim(d) && !part.sharding->dim(d).empty() &&
        !whole.sharding->dim(d).empty())
      return true;
  return false;
}

bool make_static_slice(Node& node) {
  const Node& operand = *node.operand(0);
  const auto starts = starts_of(node, 1, operand.dims(), node.dims());
  if (!starts || !split_alike(operand, node)) return false;
  Attributes attrs;
  attrs.starts = attrs.limits = *starts;
  for (size_t d = 0; d < starts->size(); ++d) attrs.limits.edit()[d] += node.dims()[d];
  attrs.strides.edit().assign(starts->size(), 1);
  replace(node, Opcode::slice, {node.operand(0)}, std::move(attrs));
  return true;
}

bool make_static_update(Node& node) {
  Node* const update = node.operand(1);
  const auto starts = starts_of(node, 2, node.dims(), update->dims());
  if (!starts || !split_alike(node, *update) || update->shape.elements_count() == 0) return false;
  const EmissionScope scope(node.metadata, node.backward);
  Computation& c = node.parent();
  const auto annotated = [&](Node* made) {
    copy_annotations(node, *made);
    return made;
  };
  const Shape positions(DType::s32, node.dims());
  std::vector<PaddingDim> padding(starts->size());
  Node* written = nullptr;
  for (size_t d = 0; d < starts->size(); ++d) {
    const int64_t start = (*starts)[d], end = start + update->dims()[d];
    padding[d] = {start, node.dims()[d] - end, 0};
    if (update->dims()[d] == node.dims()[d]) continue;
    Node* at = annotated(hlo::iota(c, positions, static_cast<int64_t>(d)));
    for (const bool from : {true, false}) {
      Node* bound = annotated(hlo::splat(c, positions, static_cast<double>(from ? start : end)));
      Node* one = annotated(hlo::compare(at, bound, from ? Direction::ge : Direction::lt));
      written = written ? annotated(hlo::binary(Opcode::and_, written, one)) : one;
    }
  }
  Node* zero = hlo::scalar(c, node.shape.dtype, 0);
  Node* padded = annotated(hlo::pad(update, zero, std::move(padding)));
  replace(node, Opcode::select, {written, padded, node.operand(0)}, {});
  return true;
}

// What makes a node's starts static; nullptr: it has none.
using MakeStatic = bool (*)(Node&);
MakeStatic make_static_of(const Node& node) {
  if (node.is(Opcode::dynamic_slice)) return make_static_slice;
  return node.is(Opcode::dynamic_update_slice) ? make_static_update : nullptr;
}

bool use_starts_in(Computation& computation) {
  std::vector<Node*> nodes;
  for (const auto& node : computation.nodes()) nodes.push_back(node.get());
  bool changed = false;
  for (Node* node : nodes) {
    const MakeStatic make_static = make_static_of(*node);
    if (make_static == nullptr) continue;
    if (node->sharding && !node->sharding->is_tiled()) continue;  // as each device computes it
    changed |= make_static(*node);
  }
  return changed;
}

}  // namespace

bool may_use_static_starts(const Module& module) {
  return any_node(module, [](const Node& node) { return make_static_of(node) != nullptr; });
}

bool use_static_starts(Module& module) { return rewrite_each(module, use_starts_in); }

}  // namespace gspmd
