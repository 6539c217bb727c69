#include "gspmd/passes/explain/estimate_cost.h"

#include "gspmd/ir/op.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "passes/graph/trip_count.h"

namespace gspmd {
namespace {

double flops_of(const Node& node) {
  const OpInfo& op = node.op();
  if (op.flops != nullptr) return static_cast<double>(op.flops(node));
  return op.has(kElementwise) ? static_cast<double>(node.shape.elements_count()) : 0;
}

// Calls, loops and tuples only name values.
bool moves_nothing(const Node& node) {
  const bool calls = !node.called.empty() && !node.op().factors;
  return node.is(Opcode::tuple) || node.is(Opcode::get_tuple_element) || calls ||
         node.op().has(kCollective) || node.is(Opcode::parameter) || node.is(Opcode::constant) ||
         node.is(Opcode::optimization_barrier);
}

double bytes_of(const Node& node) {
  if (moves_nothing(node)) return 0;
  auto bytes = static_cast<double>(node.shape.bytes());
  for (const Node* operand : node.operands()) bytes += static_cast<double>(operand->shape.bytes());
  return bytes;
}

}  // namespace

CostEstimate estimate_cost(const Module& local, const DeviceModel& device) {
  CostEstimate cost;
  const auto counts = run_counts(local);
  for (const auto& computation : local.computations()) {
    const auto found = counts.find(computation.get());
    if (found == counts.end()) continue;
    const auto runs = static_cast<double>(found->second);
    for (const auto& node : computation->nodes()) {
      const double flops = flops_of(*node);
      const double bytes = bytes_of(*node);
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
