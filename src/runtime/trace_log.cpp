#include "runtime/trace_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
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

void sort_events(RunTrace& trace) {
  std::stable_sort(
      trace.events.begin(), trace.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
        return std::tuple(a.device, a.begin, -a.end) < std::tuple(b.device, b.begin, -b.end);
      });
}

}  // namespace

TraceLog::TraceLog(const Program& program, int workers, int64_t max_events, bool verbose)
    : program_(program),
      verbose_(verbose),
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
  if (verbose_) {  // in one call, so that lines of several workers do not mix
    const std::string line = line_of(event);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  List& list = lists_[static_cast<size_t>(worker)];
  if (inner && list.events.size() >= limit_)
    ++list.dropped;
  else
    list.events.push_back(event);
}

// "device 1      12.3 us  add f32[2,3] of f32[2,3] f32[2,3]: scale (model.cpp:12)"
std::string TraceLog::line_of(const TraceEvent& event) const {
  int64_t at = event.site;
  const auto within = [&](int64_t count) {
    if (at < count) return true;
    at -= count;
    return false;
  };
  const Node* node = nullptr;
  bool is_copy = false;
  if (within(steps_)) {
    node = program_.steps[static_cast<size_t>(at)].node;
    is_copy = program_.steps[static_cast<size_t>(at)].is_copy;
  } else if (within(collectives_)) {
    node = program_.collectives[static_cast<size_t>(at)].node;
  } else if (within(loops_)) {
    node = program_.loops[static_cast<size_t>(at)]->node;
  } else {
    node = program_.branches[static_cast<size_t>(at)]->node;
  }
  std::string line = fmt::format("device {:<3} {:>10.1f} us  ", event.device,
                                 static_cast<double>(event.end - event.begin) / 1e3);
  const auto add = [&](auto format, const auto&... values) {
    fmt::format_to(std::back_inserter(line), fmt::runtime(format), values...);
  };
  if (is_copy) {
    add("copy for {}\n", node->name());
    return line;
  }
  add("{} {}", opcode_name(node->opcode()), to_string(node->shape));
  if (!node->operands().empty()) add(" of");
  for (const Node* operand : node->operands()) add(" {}", to_string(operand->shape));
  if (event.waited > 0) add(", waited {:.1f} us", static_cast<double>(event.waited) / 1e3);
  add(": {}", node->metadata.op_name.empty() ? node->name() : *node->metadata.op_name);
  const std::string source = source_line_of(*node);
  if (!source.empty()) add(" ({})", source);
  add("\n");
  return line;
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
  sort_events(trace);
}

void merge_events(RunTrace& trace, Transport& transport) {
  const std::string own(reinterpret_cast<const char*>(trace.events.data()),
                        trace.events.size() * sizeof(TraceEvent));
  const std::string dropped = fmt::format("{}", trace.dropped);
  trace.events.clear();
  trace.dropped = 0;
  for (const std::string& bytes : gather_texts(transport, own, "the trace")) {
    const size_t before = trace.events.size();
    trace.events.resize(before + bytes.size() / sizeof(TraceEvent));
    if (!bytes.empty()) std::memcpy(trace.events.data() + before, bytes.data(), bytes.size());
  }
  for (const std::string& count : gather_texts(transport, dropped, "the trace"))
    trace.dropped += std::stoll(count);
  sort_events(trace);
}

}  // namespace gspmd
