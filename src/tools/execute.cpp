#include "tools/execute.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "gspmd/api/trace_file.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/passes/explain/estimate_cost.h"
#include "gspmd/runtime/executor.h"
#include "tools/report.h"

namespace gspmd::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFastest = 1e11;  // operations, or bytes moved, a second: more than two cores do

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The shardings of a value's leaves; what has none is replicated.
std::vector<Sharding> leaf_shardings(const Node& node) {
  if (!node.shape.is_tuple) return {node.sharding.value_or(Sharding::replicated())};
  const auto count = static_cast<size_t>(leaf_count(node.shape));
  if (!node.sharding) return std::vector<Sharding>(count);
  if (!node.sharding->is_tuple()) return std::vector<Sharding>(count, *node.sharding);
  return node.sharding->elements();
}

// What is free: the machine's, or the container's limit where that is lower.
int64_t available_bytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  for (int64_t value; meminfo >> key >> value; std::getline(meminfo, unit))
    if (key == "MemAvailable:") available = value * 1024;
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  if (int64_t value; limit >> value) available = std::min(available, value);
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    available = std::min(available, static_cast<int64_t>(address_space.rlim_cur / 10 * 9));
  return available;
}

}  // namespace

int64_t Prepared::bytes() const {
  return saturating_multiply(local_devices(num_devices).count(),
                             sum_bytes({compiled.plan.peak_bytes, kDeviceBytes}));
}

std::shared_ptr<WorkerPool> worker_pool(const Command& command) {
  return make_worker_pool(command.threads == 0 ? default_threads() : command.threads);
}

Prepared prepare(const Module& module, const PipelineOptions& options) {
  const Clock::time_point start = Clock::now();
  Prepared prepared;
  prepared.num_devices = options.num_devices;
  PipelineOptions all = options;
  all.schedule.process_of = process_of_devices(options.num_devices);
  prepared.compiled = run_pipeline(module, all);
  prepared.compile_seconds = seconds_since(start);
  return prepared;
}

std::unique_ptr<Module> for_one_device(const Module& module) {
  std::unique_ptr<Module> copy = module.clone();
  copy->num_partitions = 1;
  for (const auto& computation : copy->computations()) {
    for (const auto& node : computation->nodes()) {
      node->sharding.reset();
      if (!node->is(Opcode::custom_call)) continue;
      const std::string& target = node->attrs.custom_call_target;
      if (target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape")
        user_error(place_of(*node),
                   "{}: \"{}\" bounds a manual region, which has no meaning on one device", target,
                   node->name());
      if (target == "Sharding" && node->operands().size() == 1)
        computation->replace_uses(node.get(), node->operand(0));
    }
    computation->remove_dead();
  }
  return copy;
}

int64_t sum_bytes(std::initializer_list<int64_t> terms) {
  int64_t total = 0;
  for (const int64_t term : terms)
    if (__builtin_add_overflow(total, term, &total)) return std::numeric_limits<int64_t>::max();
  return total;
}

int64_t input_bytes(const Module& module) {
  int64_t bytes = 0;
  for (const Node* parameter : module.entry()->parameters())
    bytes = sum_bytes({bytes, parameter->shape.bytes()});
  return bytes;
}

int64_t output_bytes(const Module& module) { return module.entry()->root()->shape.bytes(); }

void check_memory(const std::string& what, int64_t bytes) {
  const int64_t available = available_bytes();
  if (bytes > available)
    user_error("{}: {} bytes are needed, {} are free; use smaller shapes or fewer devices", what,
               bytes, available);
}

void check_time(const std::string& what, const Module& local, int64_t devices,
                const Command& command) {
  const CostEstimate cost = least_cost(local);
  const double work = std::max(cost.flops, cost.memory_bytes) * static_cast<double>(devices);
  if (work > kFastest * command.time_limit)
    user_error(
        "{}: at least {:.3g} operations and {:.3g} bytes moved do not end within {} seconds; use "
        "smaller shapes, or a longer --time-limit",
        what, cost.flops * static_cast<double>(devices),
        cost.memory_bytes * static_cast<double>(devices), command.time_limit);
}

Outcome execute(const Prepared& prepared, std::span<const Array> inputs, const Command& command) {
  const Computation& completed = *prepared.compiled.completed->entry();
  const auto program = build_program(prepared.compiled, {prepared.num_devices});
  Executor executor(program, worker_pool(command));
  std::vector<std::shared_ptr<DeviceBuffer>> arguments;
  for (const Node* parameter : completed.parameters())
    for (const Sharding& sharding : leaf_shardings(*parameter)) {
      const Array& array = inputs[arguments.size()];
      arguments.push_back(scatter_to_devices(array, sharding, prepared.num_devices));
    }
  Outcome outcome;
  const Clock::time_point start = Clock::now();
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  RunTrace trace;
  if (const auto mesh = mesh_of(*prepared.compiled.completed)) trace.mesh = *mesh;
  executor.run(arguments, results, command.trace.empty() ? nullptr : &trace);
  outcome.seconds = seconds_since(start);
  outcome.counters = executor.counters();
  outcome.evaluated = evaluated_steps(*program);
  if (!command.trace.empty() && is_first_process()) write_trace(command.trace, trace, command.file);
  const std::vector<Shape> shapes = leaf_shapes(completed.root()->shape);
  const std::vector<Sharding> shardings = leaf_shardings(*completed.root());
  for (size_t i = 0; i < results.size(); ++i)
    outcome.outputs.push_back(gather_to_host(*results[i], shapes[i], shardings[i]));
  return outcome;
}

}  // namespace gspmd::tools
