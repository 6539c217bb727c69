#include "gspmd/passes/explain/estimate_cost.h"

#include <algorithm>
#include <unordered_set>

#include "gspmd/ir/op.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "passes/explain/node_cost.h"
#include "passes/graph/trip_count.h"

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

// Those that fusions call: what their ops hand on stays in registers.
std::unordered_set<const Computation*> fused_computations(const Module& module) {
  std::unordered_set<const Computation*> fused;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->is(Opcode::fusion)) fused.insert(node->called.begin(), node->called.end());
  return fused;
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

CostEstimate estimate_cost(const Module& local, const DeviceModel& device) {
  CostEstimate cost;
  const auto counts = run_counts(local);
  const auto fused = fused_computations(local);
  for (const auto& computation : local.computations()) {
    const auto found = counts.find(computation.get());
    if (found == counts.end() || fused.contains(computation.get())) continue;
    const auto runs = static_cast<double>(found->second);
    for (const auto& node : computation->nodes()) {
      const auto [flops, bytes] = cost_of(*node);
      cost.flops += runs * flops;
      cost.memory_bytes += runs * bytes;
      cost.seconds +=
          runs * std::max(flops / device.flops_per_second, bytes / device.memory_bytes_per_second);
    }
  }
  for (const CollectiveStats& collective : collective_stats(local)) {
    cost.collective_bytes += static_cast<double>(collective.bytes);
    cost.collectives += static_cast<double>(collective.count);
  }
  cost.seconds += cost.collective_bytes / device.link_bytes_per_second +
                  cost.collectives * device.collective_latency_seconds;
  return cost;
}

}  // namespace gspmd
