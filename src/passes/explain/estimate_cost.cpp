#include "gspmd/passes/explain/estimate_cost.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/passes/explain/collective_stats.h"
#include "passes/graph/node_cost.h"
#include "passes/graph/trip_count.h"

namespace gspmd {
namespace {

// Those that fusions call: what their ops hand on stays in registers.
std::unordered_set<const Computation*> fused_computations(const Module& module) {
  std::unordered_set<const Computation*> fused;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->is(Opcode::fusion)) fused.insert(node->called.begin(), node->called.end());
  return fused;
}

using Costs = std::unordered_map<const Computation*, CostEstimate>;

// Of what a node calls, in one run: all of it, but of a conditional's branches the least.
CostEstimate least_of_called(const Node& node, const Costs& costs) {
  CostEstimate called;
  bool is_first = true;
  for (const Computation* callee : node.called) {
    const CostEstimate& one = costs.at(callee);
    if (node.is(Opcode::conditional) && !is_first) {
      called.flops = std::min(called.flops, one.flops);
      called.memory_bytes = std::min(called.memory_bytes, one.memory_bytes);
    } else {
      called.flops += one.flops;
      called.memory_bytes += one.memory_bytes;
    }
    is_first = false;
  }
  return called;
}

}  // namespace

CostEstimate least_cost(const Module& local) {
  Costs costs;
  for (const auto& computation : local.computations()) {  // callees first
    CostEstimate& all = costs[computation.get()];
    for (const auto& node : computation->nodes()) {
      const auto [flops, bytes] = cost_of(*node);
      all.flops += flops;
      all.memory_bytes += bytes;
      if (node->called.empty() || node->is(Opcode::fusion)) continue;  // which has its ops' cost
      const CostEstimate called = least_of_called(*node, costs);
      const auto runs =
          static_cast<double>(node->is(Opcode::while_) ? trip_count(*node).value_or(1) : 1);
      all.flops += runs * called.flops;
      all.memory_bytes += runs * called.memory_bytes;
    }
  }
  return costs.at(local.entry());
}

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
      cost.seconds += runs * seconds_of({flops, bytes}, device);
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
