#include "runtime/trace_log.h"

#include <algorithm>
#include <tuple>

#include "gspmd/passes/explain/collective_stats.h"
#include "passes/memory/plan_memory_buffers.h"

namespace gspmd {
namespace {

TraceSite site_of(const Program& program, const Node& node, TraceSite::Kind kind) {
  TraceSite site;
  site.kind = kind;
  site.name = node.name();
  site.opcode = opcode_name(node.opcode());
  site.op_name = node.metadata.op_name;
  site.shape = to_string(node.shape);
  site.source = source_line_of(node);
  const auto live = program.plan.live_bytes.find(node.id());
  if (live != program.plan.live_bytes.end()) site.live_bytes = live->second;
  return site;
}

TraceSite step_site(const Program& program, const Step& step) {
  TraceSite site;
  // What puts a value into place belongs to the instruction whose value it is, if that is known.
  if (step.node != nullptr) site = site_of(program, *step.node, TraceSite::op);
  if (step.is_copy) {
    site.opcode = opcode_name(Opcode::copy);
    site.shape.clear();
  }
  if (site.name.empty()) site.name = step.name;
  for (int64_t i = 0; i < step.operands + step.results; ++i)
    site.bytes += program.arguments[static_cast<size_t>(step.first_argument + i)].bytes;
  return site;
}

TraceSite collective_site(const Program& program, const Node& node, const Mesh* mesh) {
  TraceSite site = site_of(program, node, TraceSite::collective);
  const CollectiveStats stats = describe_collective(node, program.options.num_devices, mesh);
  site.bytes = stats.bytes;
  site.groups = stats.groups;
  site.axes = stats.axes;
  return site;
}

}  // namespace

TraceLog::TraceLog(const Program& program, int workers, int64_t max_events)
    : program_(program),
      steps_(std::ssize(program.steps)),
      collectives_(std::ssize(program.collectives)),
      loops_(std::ssize(program.loops)),
      limit_(static_cast<size_t>(max_events / workers)),
      lists_(static_cast<size_t>(workers)) {
  // Room for a program without loops, so that writing down costs little.
  const int64_t sites = branch(std::ssize(program.branches));
  const auto room = static_cast<size_t>(
      saturating_multiply(sites, ceil_div(program.options.num_devices, workers)));
  for (List& list : lists_) list.events.reserve(std::min(room, limit_));
  start_ = Clock::now();
}

void TraceLog::add(int worker, const TraceEvent& event, bool inner) {
  List& list = lists_[static_cast<size_t>(worker)];
  if (inner && list.events.size() >= limit_)
    ++list.dropped;
  else
    list.events.push_back(event);
}

void TraceLog::finish(RunTrace& trace) const {
  trace.num_devices = program_.options.num_devices;
  trace.peak_live_bytes = program_.plan.peak_live_bytes;
  trace.sites.clear();
  trace.events.clear();
  trace.dropped = 0;
  for (const Step& step : program_.steps) trace.sites.push_back(step_site(program_, step));
  const Mesh* const mesh = trace.mesh ? &*trace.mesh : nullptr;
  for (const CollectiveStep& step : program_.collectives)
    trace.sites.push_back(collective_site(program_, *step.node, mesh));
  for (const auto& loop : program_.loops)
    trace.sites.push_back(site_of(program_, *loop->node, TraceSite::loop));
  for (const auto& branch : program_.branches)
    trace.sites.push_back(site_of(program_, *branch->node, TraceSite::branch));
  for (const List& list : lists_) {
    trace.events.insert(trace.events.end(), list.events.begin(), list.events.end());
    trace.dropped += list.dropped;
  }
  std::stable_sort(
      trace.events.begin(), trace.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
        return std::tuple(a.device, a.begin, -a.end) < std::tuple(b.device, b.begin, -b.end);
      });
}

}  // namespace gspmd
