#include "gspmd/api/stats.h"

#include <nlohmann/json.hpp>

#include "api/executable_impl.h"
#include "gspmd/ir/op.h"
#include "passes/graph/trip_count.h"

namespace gspmd {
namespace {

constexpr size_t kListedTensors = 5;  // of those at the peak, in the table

int64_t node_flops(const Node& node) {
  const OpInfo& op = node.op();
  if (op.flops) return op.flops(node);
  return op.has(kElementwise) && !op.has(kDataMovement) ? node.shape.elements_count() : 0;
}

// With loops and branches: each step of a loop whose number of steps is known, else one; each
// branch.
int64_t flops_of(const Module& local) {
  int64_t flops = 0;
  const auto counts = run_counts(local);
  for (const auto& computation : local.computations()) {
    const auto runs = counts.find(computation.get());
    if (runs == counts.end()) continue;
    int64_t once = 0;
    for (const std::unique_ptr<Node>& node : computation->nodes()) once += node_flops(*node);
    flops = saturating_add(flops, saturating_multiply(runs->second, once));
  }
  return flops;
}

std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

nlohmann::json to_json_list(const std::vector<CollectiveStats>& collectives) {
  nlohmann::json list = nlohmann::json::array();
  for (const CollectiveStats& c : collectives)
    list.push_back({{"kind", c.kind},
                    {"count", c.count},
                    {"sites", c.sites},
                    {"bytes", c.bytes},
                    {"groups", c.groups},
                    {"axes", c.axes},
                    {"op", c.op},
                    {"source", c.source},
                    {"phase", c.backward ? "backward" : "forward"}});
  return list;
}

nlohmann::json to_json_list(const std::vector<HeldTensor>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const HeldTensor& tensor : tensors)
    list.push_back({{"name", tensor.name},
                    {"shape", to_string(tensor.shape)},
                    {"bytes", tensor.bytes},
                    {"source", tensor.source}});
  return list;
}

}  // namespace

namespace detail {

ExecutableStats program_stats(const ExecutableBase::Impl& impl) {
  const MemoryPlan& plan = impl.stages.plan;
  ExecutableStats stats;
  stats.num_devices = impl.num_devices();
  stats.collectives = collective_stats(*impl.stages.local, &impl.options.mesh);
  stats.uncombined = collective_stats(*impl.stages.uncombined, &impl.options.mesh);
  stats.full_rematerializations = impl.stages.full_rematerializations;
  for (const CollectiveStats& c : stats.collectives) {
    stats.collective_count += c.count;
    stats.collective_bytes += c.bytes;
  }
  stats.flops = flops_of(*impl.stages.local);
  stats.predicted_peak_bytes = plan.peak_bytes;
  stats.arena_bytes = plan.arena_bytes;
  stats.peak_live_bytes = plan.peak_live_bytes;
  stats.recomputations = impl.stages.recomputations;
  stats.parameter_bytes = plan.parameter_bytes;
  if (impl.program) {
    stats.scratch_bytes = scratch_bytes(*impl.program);
    stats.evaluated = evaluated_steps(*impl.program);
  }
  stats.peak_op = plan.peak_op;
  stats.peak_tensors = plan.peak_tensors;
  stats.compile_seconds = impl.stages.seconds;
  for (const PassTime& time : stats.compile_seconds) stats.total_compile_seconds += time.seconds;
  return stats;
}

}  // namespace detail

std::string to_string(const ExecutableStats& stats) {
  std::string text = fmt::format("{} devices, {:.3g} GFLOP per device\n", stats.num_devices,
                                 static_cast<double>(stats.flops) * 1e-9);
  text += fmt::format("collectives: {}, each device sends {}\n", stats.collective_count,
                      bytes_text(stats.collective_bytes));
  for (const CollectiveStats& c : stats.collectives)
    text += fmt::format("  {:<18} x{:<3} {:>10}  over {:<12} {} for {} {}\n", c.kind, c.count,
                        bytes_text(c.bytes), c.axes.empty() ? c.groups : c.axes,
                        c.backward ? "backward" : "forward ", c.op, c.source);
  for (const FullRematerialization& full : stats.full_rematerializations)
    text += fmt::format("  full rematerialization of {} {} from {} to {} for {} {}{}{}\n",
                        full.tensor, full.shape, full.from, full.to, full.op, full.source,
                        full.avoid.empty() ? "" : "; ", full.avoid);
  text += fmt::format("memory per device: peak {} at {} (parameters {}, arena {})\n",
                      bytes_text(stats.predicted_peak_bytes), stats.peak_op,
                      bytes_text(stats.parameter_bytes), bytes_text(stats.arena_bytes));
  for (size_t i = 0; i < stats.peak_tensors.size() && i < kListedTensors; ++i)
    text += fmt::format("  {}\n", to_string(stats.peak_tensors[i]));
  for (const Recomputation& recomputation : stats.recomputations)
    text += fmt::format("  made again: {}\n", to_string(recomputation));
  for (const EvaluatedStep& step : stats.evaluated)
    text += fmt::format("element by element, for want of a kernel: {}\n", to_string(step));
  text += fmt::format("compiled in {:.3f} s\n", stats.total_compile_seconds);
  return text;
}

std::string to_json(const ExecutableStats& stats) {
  nlohmann::json full = nlohmann::json::array();
  for (const FullRematerialization& f : stats.full_rematerializations)
    full.push_back({{"tensor", f.tensor},
                    {"shape", f.shape},
                    {"from", f.from},
                    {"to", f.to},
                    {"op", f.op},
                    {"source", f.source},
                    {"avoid", f.avoid}});
  nlohmann::json again = nlohmann::json::array();
  for (const Recomputation& r : stats.recomputations)
    again.push_back({{"name", r.name},
                     {"shape", to_string(r.shape)},
                     {"before", r.before},
                     {"bytes", r.bytes},
                     {"flops", r.flops},
                     {"source", r.source}});
  nlohmann::json evaluated = nlohmann::json::array();
  for (const EvaluatedStep& step : stats.evaluated)
    evaluated.push_back({{"op", step.op},
                         {"instruction", step.instruction},
                         {"shape", to_string(step.shape)},
                         {"source", step.source}});
  nlohmann::json seconds = nlohmann::json::object();
  for (const PassTime& time : stats.compile_seconds)
    seconds[time.pass] = seconds.value(time.pass, 0.0) + time.seconds;
  const nlohmann::json object{{"num_devices", stats.num_devices},
                              {"collectives", to_json_list(stats.collectives)},
                              {"uncombined", to_json_list(stats.uncombined)},
                              {"full_rematerializations", full},
                              {"collective_count", stats.collective_count},
                              {"collective_bytes", stats.collective_bytes},
                              {"flops", stats.flops},
                              {"predicted_peak_bytes", stats.predicted_peak_bytes},
                              {"arena_bytes", stats.arena_bytes},
                              {"peak_live_bytes", stats.peak_live_bytes},
                              {"recomputations", again},
                              {"evaluated", evaluated},
                              {"parameter_bytes", stats.parameter_bytes},
                              {"scratch_bytes", stats.scratch_bytes},
                              {"peak_op", stats.peak_op},
                              {"peak_tensors", to_json_list(stats.peak_tensors)},
                              {"compile_seconds", seconds},
                              {"total_compile_seconds", stats.total_compile_seconds}};
  return object.dump();
}

}  // namespace gspmd
