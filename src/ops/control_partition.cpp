#include "ops/control_partition.h"

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

// Leaf i of a flat tuple, or of one inside: the position in the flattened list where element i
// starts.
int64_t first_leaf(const Shape& shape, int64_t element) {
  int64_t leaf = 0;
  for (int64_t i = 0; i < element; ++i) leaf += leaf_count(shape.elements[static_cast<size_t>(i)]);
  return leaf;
}

void need_flat(const Node& node, const Shape& shape) {
  for (const Shape& element : shape.elements)
    if (element.is_tuple)
      user_error("{}: {} carries a nested tuple {}; nested tuples are not partitioned, flatten it",
                 opcode_name(node.opcode()), node.name(), to_string(shape));
}

// A value of any shape in the layout `to`, tuples element by element.
Node* in_layout(PartitionContext& context, Node* global, const Sharding& to) {
  if (!global->shape.is_tuple) return context.reshard(global, to);
  const Partitioned value = context.held(global);
  if (value.sharding == to) return value.local;
  need_flat(*global, global->shape);
  std::vector<Node*> elements;
  for (size_t i = 0; i < global->shape.elements.size(); ++i) {
    Node* element = hlo::get_tuple_element(value.local, static_cast<int64_t>(i));
    elements.push_back(context.reshard(Partitioned{element, value.sharding.elements().at(i)},
                                       global->shape.elements[i], to.elements().at(i)));
  }
  return hlo::tuple(context.local(), std::move(elements));
}

}  // namespace

Partitioned partition_tuple(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  std::vector<Node*> elements;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    Node* operand = node.operands()[i];
    const auto leaf = static_cast<size_t>(first_leaf(node.shape, static_cast<int64_t>(i)));
    if (operand->shape.is_tuple) {
      const auto count = leaf_count(operand->shape);
      std::vector<Sharding> part(s.elements().begin() + int64_t(leaf),
                                 s.elements().begin() + int64_t(leaf) + count);
      elements.push_back(in_layout(context, operand, Sharding::tuple(std::move(part))));
    } else {
      elements.push_back(context.reshard(operand, s.elements().at(leaf)));
    }
  }
  return {hlo::tuple(context.local(), std::move(elements)), s};
}

Partitioned partition_get_tuple_element(PartitionContext& context, Node& node) {
  const Partitioned value = context.held(node.operand(0));
  const auto leaf = first_leaf(node.operand(0)->shape, node.attrs.index);
  Node* local = hlo::get_tuple_element(value.local, node.attrs.index);
  const auto& leaves = value.sharding.elements();
  if (!node.shape.is_tuple) return {local, leaves.at(static_cast<size_t>(leaf))};
  return {local,
          Sharding::tuple({leaves.begin() + leaf, leaves.begin() + leaf + leaf_count(node.shape)})};
}

Partitioned partition_opt_barrier(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  Node* local = in_layout(context, node.operand(0), s);
  return {context.emit(Opcode::optimization_barrier, local->shape, {local}), s};
}

Partitioned partition_while(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  need_flat(node, node.shape);
  Node* start = in_layout(context, node.operand(0), s);
  Computation* condition = context.partition_called(*node.called.at(0), s, Sharding::replicated());
  Computation* body = context.partition_called(*node.called.at(1), s, s);
  return {context.emit(Opcode::while_, start->shape, {start}, {}, {condition, body}), s};
}

// Sharding is an annotation; any other target is opaque: it sees whole values, on every device.
Partitioned partition_custom_call(PartitionContext& context, Node& node) {
  if (node.attrs.custom_call_target == "Sharding") {
    const Sharding& s = context.sharding(node);
    return {context.reshard(node.operand(0), s), s};
  }
  if (node.attrs.custom_call_target.rfind("SPMD", 0) == 0)
    user_error("custom-call: {} ({}) starts or ends a manual region, which is not supported",
               node.name(), node.attrs.custom_call_target);
  std::vector<Node*> operands;
  for (Node* operand : node.operands()) {
    if (operand->shape.is_tuple) need_flat(node, operand->shape);
    const size_t leaves = static_cast<size_t>(leaf_count(operand->shape));
    operands.push_back(in_layout(context, operand,
                                 operand->shape.is_tuple
                                     ? Sharding::tuple(std::vector<Sharding>(leaves))
                                     : Sharding::replicated()));
  }
  const Sharding whole =
      node.shape.is_tuple
          ? Sharding::tuple(std::vector<Sharding>(static_cast<size_t>(leaf_count(node.shape))))
          : Sharding::replicated();
  return {context.emit(Opcode::custom_call, node.shape, operands, node.attrs), whole};
}

Partitioned partition_partition_id(PartitionContext&, Node& node) {
  user_error(
      "{}: {} belongs to a per-device program; a module to be partitioned computes on whole "
      "values, so write what it should compute without it",
      opcode_name(node.opcode()), node.name());
}

}  // namespace gspmd
