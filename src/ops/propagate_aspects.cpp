#include "gspmd/ops/builders.h"
#include "ops/reshape_sharding.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

using MaybeSharding = std::optional<Sharding>;

MaybeSharding reshape_forward(const Node& node, int) {
  const MaybeSharding& s = node.operand(0)->sharding;
  if (!s || !s->is_tiled()) return std::nullopt;
  return reshape_sharding(node.operand(0)->dims(), node.dims(), *s);
}

MaybeSharding reshape_backward(const Node& node, int64_t, int) {
  if (!node.sharding || !node.sharding->is_tiled()) return std::nullopt;
  return reshape_sharding(node.dims(), node.operand(0)->dims(), *node.sharding);
}

int64_t leaf_of(const Shape& shape, int64_t element) {
  int64_t leaf = 0;
  for (int64_t i = 0; i < element; ++i) leaf += leaf_count(shape.elements.at(static_cast<size_t>(i)));
  return leaf;
}

// Leaves [begin, begin + count) of a tuple sharding, as the sharding of a value of `shape`.
Sharding part(const Sharding& s, int64_t begin, const Shape& shape) {
  const auto& leaves = s.elements();
  if (!shape.is_tuple) return leaves.at(static_cast<size_t>(begin));
  return Sharding::tuple({leaves.begin() + begin, leaves.begin() + begin + leaf_count(shape)});
}

MaybeSharding tuple_forward(const Node& node, int) {
  std::vector<Sharding> leaves;
  bool any = false;
  for (const Node* operand : node.operands()) {
    any = any || operand->sharding.has_value();
    const auto count = static_cast<size_t>(leaf_count(operand->shape));
    if (!operand->sharding) leaves.insert(leaves.end(), count, Sharding::replicated());
    else if (!operand->sharding->is_tuple()) leaves.insert(leaves.end(), count, *operand->sharding);
    else
      leaves.insert(leaves.end(), operand->sharding->elements().begin(),
                    operand->sharding->elements().end());
  }
  if (!any) return std::nullopt;
  return Sharding::tuple(std::move(leaves));
}

MaybeSharding tuple_backward(const Node& node, int64_t operand, int) {
  if (!node.sharding || !node.sharding->is_tuple()) return std::nullopt;
  return part(*node.sharding, leaf_of(node.shape, operand), node.operand(operand)->shape);
}

MaybeSharding element_forward(const Node& node, int) {
  const MaybeSharding& s = node.operand(0)->sharding;
  if (!s || !s->is_tuple()) return std::nullopt;
  return part(*s, leaf_of(node.operand(0)->shape, node.attrs.index), node.shape);
}

MaybeSharding element_backward(const Node& node, int64_t, int) {
  if (!node.sharding) return std::nullopt;
  const Shape& shape = node.operand(0)->shape;
  std::vector<Sharding> leaves(static_cast<size_t>(leaf_count(shape)));
  const int64_t begin = leaf_of(shape, node.attrs.index);
  for (int64_t i = 0; i < leaf_count(node.shape); ++i)
    leaves[static_cast<size_t>(begin + i)] =
        node.sharding->is_tuple() ? node.sharding->elements().at(static_cast<size_t>(i)) : *node.sharding;
  return Sharding::tuple(std::move(leaves));
}

MaybeSharding same_forward(const Node& node, int) { return node.operand(0)->sharding; }
MaybeSharding same_backward(const Node& node, int64_t, int) { return node.sharding; }

bool passes_through(const Node& node) {
  return node.attrs.custom_call_target == "Sharding" || node.attrs.custom_call_target == "LayoutConstraint";
}

MaybeSharding custom_call_forward(const Node& node, int) {
  return passes_through(node) ? node.operand(0)->sharding : std::nullopt;
}
MaybeSharding custom_call_backward(const Node& node, int64_t, int) {
  return passes_through(node) ? node.sharding : std::nullopt;
}

MaybeSharding nothing_forward(const Node&, int) { return std::nullopt; }
MaybeSharding nothing_backward(const Node&, int64_t, int) { return std::nullopt; }

}  // namespace

std::span<const PropagateAspect> propagate_aspects() {
  static const PropagateAspect aspects[] = {
      {Opcode::reshape, reshape_forward, reshape_backward},
      {Opcode::tuple, tuple_forward, tuple_backward},
      {Opcode::get_tuple_element, element_forward, element_backward},
      {Opcode::optimization_barrier, same_forward, same_backward},
      {Opcode::while_, same_forward, same_backward},
      // Results follow their computation, which completion ties to them.
      {Opcode::call, nothing_forward, nothing_backward},
      {Opcode::custom_call, custom_call_forward, custom_call_backward},
  };
  return aspects;
}

}  // namespace gspmd
