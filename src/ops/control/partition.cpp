
#include "gspmd/base/error.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/control/control.h"
#include "ops/control/debug_call.h"

namespace gspmd {
namespace {

Node* in_layout(PartitionContext& context, Node* global, const Sharding& to) {
  if (!global->shape.is_tuple) return context.reshard(global, to);
  return tuple_in_layout(context, context.held(global), global->shape, to);
}

}  // namespace

Sharding element_sharding(const Sharding& tuple, const Shape& shape, int64_t element) {
  int64_t leaf = first_leaf(shape, element);
  return next_element_sharding(tuple, shape.elements[static_cast<size_t>(element)], leaf);
}

Sharding next_element_sharding(const Sharding& tuple, const Shape& element, int64_t& leaf) {
  const auto begin = tuple.elements().begin() + leaf;
  if (!element.is_tuple) {
    ++leaf;
    return *begin;
  }
  const int64_t count = leaf_count(element);
  leaf += count;
  return Sharding::tuple({begin, begin + count});
}

Node* tuple_in_layout(PartitionContext& context, const Partitioned& value, const Shape& global,
                      const Sharding& to) {
  if (value.sharding == to) return value.local;
  std::vector<Node*> elements;
  int64_t leaf = 0, wanted_leaf = 0;
  for (int64_t i = 0; i < std::ssize(global.elements); ++i) {
    const Shape& shape = global.elements[static_cast<size_t>(i)];
    const Partitioned element{hlo::get_tuple_element(value.local, i),
                              next_element_sharding(value.sharding, shape, leaf)};
    const Sharding wanted = next_element_sharding(to, shape, wanted_leaf);
    elements.push_back(shape.is_tuple ? tuple_in_layout(context, element, shape, wanted)
                                      : context.reshard(element, shape, wanted));
  }
  return hlo::tuple(context.local(), std::move(elements));
}

std::optional<Partitioned> partition_tuple(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  std::vector<Node*> elements;
  int64_t leaf = 0;
  for (Node* operand : node.operands())
    elements.push_back(in_layout(context, operand, next_element_sharding(s, operand->shape, leaf)));
  return Partitioned{hlo::tuple(context.local(), std::move(elements)), s};
}

std::optional<Partitioned> partition_get_tuple_element(PartitionContext& context, Node& node) {
  const Partitioned value = context.held(node.operand(0));
  Node* local = hlo::get_tuple_element(value.local, node.attrs.index);
  return Partitioned{local,
                     element_sharding(value.sharding, node.operand(0)->shape, node.attrs.index)};
}

std::optional<Partitioned> partition_opt_barrier(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  Node* local = in_layout(context, node.operand(0), s);
  return Partitioned{context.emit(Opcode::optimization_barrier, local->shape, {local}), s};
}

std::optional<Partitioned> partition_while(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  Node* start = in_layout(context, node.operand(0), s);
  Computation* condition = context.partition_called(*node.called.at(0), s, Sharding::replicated());
  Computation* body = context.partition_called(*node.called.at(1), s, s);
  return Partitioned{context.emit(Opcode::while_, start->shape, {start}, {}, {condition, body}), s};
}

// Each branch reads its operand in the layout that the operand has, and returns the conditional's.
// All devices take the same branch, since the whole selector is on each of them.
std::optional<Partitioned> partition_conditional(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  std::vector<Node*> operands = {context.reshard(node.operand(0), Sharding::replicated())};
  std::vector<Computation*> branches;
  for (size_t i = 0; i < node.called.size(); ++i) {
    Node* const operand = node.operand(static_cast<int64_t>(i) + 1);
    const Sharding layout = context.sharding(*operand);
    operands.push_back(in_layout(context, operand, layout));
    branches.push_back(context.partition_called(*node.called[i], layout, s));
  }
  return Partitioned{context.emit(Opcode::conditional, local_shape(node.shape, s),
                                  std::move(operands), node.attrs, std::move(branches)),
                     s};
}

// Sharding is an annotation, others are known to go element by element; any other target is opaque:
// it sees whole values, on every device.
std::optional<Partitioned> partition_custom_call(PartitionContext& context, Node& node) {
  if (is_debug_call(node)) return partition_debug_call(context, node);
  if (is_annotation(node)) {
    const Sharding& s = context.sharding(node);
    return Partitioned{context.reshard(node.operand(0), s), s};
  }
  if (is_elementwise_call(node) && !node.shape.is_tuple) {
    const Sharding& s = context.sharding(node);
    std::vector<Node*> parts;
    for (Node* operand : node.operands()) parts.push_back(context.reshard(operand, s));
    return Partitioned{
        context.emit(Opcode::custom_call, local_shape(node.shape, s), parts, node.attrs), s};
  }
  if (node.attrs.custom_call_target.starts_with("SPMD"))
    user_error("custom-call: {} ({}) starts or ends a manual region, which is not supported",
               node.name(), *node.attrs.custom_call_target);
  std::vector<Node*> operands;
  for (Node* operand : node.operands()) {
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
  std::vector<Computation*> called;
  for (const Computation* computation : node.called)
    called.push_back(context.local_computation(*computation));
  return Partitioned{
      context.emit(Opcode::custom_call, node.shape, operands, node.attrs, std::move(called)),
      whole};
}

}  // namespace gspmd
