#include "passes/graph/node_cost.h"

#include <algorithm>

#include "gspmd/ir/op.h"

namespace gspmd {
namespace {

double flops_of(const Node& node) {
  const OpInfo& op = node.op();
  if (op.flops != nullptr) return static_cast<double>(op.flops(node));
  return op.has(kElementwise) ? static_cast<double>(node.shape.elements_count()) : 0;
}

bool is_storage_of_operand(const Node& node) {
  return node.op().has(kAlias) && node.operands().size() == 1 &&
         node.shape.bytes() == node.operand(0)->shape.bytes();
}

// Calls, loops and tuples only name values; a fusion reads its operands and writes its results.
bool moves_nothing(const Node& node) {
  const bool calls = !node.called.empty() && !node.op().factors && !node.is(Opcode::fusion);
  return node.is(Opcode::tuple) || node.is(Opcode::get_tuple_element) || calls ||
         node.op().has(kCollective) || node.is(Opcode::parameter) || node.is(Opcode::constant) ||
         is_storage_of_operand(node);
}

double bytes_of(const Node& node) {
  if (moves_nothing(node)) return 0;
  auto bytes = static_cast<double>(node.shape.bytes());
  for (const Node* operand : node.operands()) bytes += static_cast<double>(operand->shape.bytes());
  return bytes;
}

// Of an op and, if it is a fusion, of all that it does.
double work_of(const Node& node) {
  double flops = flops_of(node);
  if (node.is(Opcode::fusion))
    for (const Computation* called : node.called)
      for (const auto& inner : called->nodes()) flops += work_of(*inner);
  return flops;
}

}  // namespace

NodeCost cost_of(const Node& node) { return {work_of(node), bytes_of(node)}; }

double seconds_of(const NodeCost& cost, const DeviceModel& device) {
  return std::max(cost.flops / device.flops_per_second,
                  cost.bytes / device.memory_bytes_per_second);
}

}  // namespace gspmd
