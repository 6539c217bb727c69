#include "tools/copies.h"

#include <chrono>
#include <cstring>

#include "gspmd/api/trace_file.h"
#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/prepare/join_async.h"
#include "gspmd/runtime/executor.h"
#include "ir/sdy_names.h"
#include "tools/inputs.h"

namespace gspmd::tools {
namespace {

using Clock = std::chrono::steady_clock;

double time_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool splits(const Sharding& sharding) {
  if (!sharding.is_tuple()) return !sharding.is_replicated();
  for (const Sharding& element : sharding.elements())
    if (splits(element)) return true;
  return false;
}

bool is_region_boundary(const Node& node) {
  const std::string& target = node.attrs.custom_call_target;
  return node.is(Opcode::custom_call) &&
         (target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape" ||
          target == kToLocalShape || target == kToGlobalShape);
}

bool is_compiled(const Module& module) {
  for (const auto& [name, value] : module.header)
    if (name == "is_scheduled" && value == "true") return true;
  return module.entry() != nullptr && module.entry()->name().ends_with("_spmd");
}

}  // namespace

bool runs_as_copies(const Module& module) {
  bool knows_devices = false;
  const bool compiled = is_compiled(module);
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (is_region_boundary(*node)) return false;
      if (!compiled && node->sharding && splits(*node->sharding)) return false;
      knows_devices |= node->op().has(kCollective) || node->is(Opcode::partition_id) ||
                       node->is(Opcode::replica_id);
    }
  return knows_devices;
}

int64_t CopiesProgram::bytes() const {
  return saturating_multiply(num_devices, sum_bytes({compiled.plan.peak_bytes, input_bytes(*module),
                                                     output_bytes(*module), kDeviceBytes}));
}

CopiesProgram prepare_copies(const Module& module) {
  const Clock::time_point start = Clock::now();
  CopiesProgram program;
  program.module = for_one_device(module);
  program.num_devices = program.module->num_partitions = module.num_partitions;
  join_async(*program.module);
  program.compiled = prepare_local(*program.module);
  program.compile_seconds = time_since(start);
  return program;
}

PerDevice copies_inputs(const CopiesProgram& program, const Command& command) {
  return make_device_inputs(*program.module, command, program.num_devices);
}

CopiesOutcome run_copies(const CopiesProgram& program, const PerDevice& inputs,
                         const Command& command) {
  const auto compiled = build_program(program.compiled, {program.num_devices});
  Executor executor(compiled, worker_pool(command));
  std::vector<std::shared_ptr<DeviceBuffer>> arguments;
  for (size_t leaf = 0; leaf < inputs[0].size(); ++leaf) {
    arguments.push_back(
        std::make_shared<DeviceBuffer>(inputs[0][leaf].shape(), program.num_devices));
    const DeviceRange local = arguments.back()->local();
    for (int64_t d = local.first; d < local.last; ++d)
      if (const auto bytes = inputs[static_cast<size_t>(d)][leaf].bytes(); !bytes.empty())
        std::memcpy(arguments.back()->shard(d), bytes.data(), bytes.size());
  }
  const Clock::time_point start = Clock::now();
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  RunTrace trace;
  executor.run(arguments, results, command.trace.empty() ? nullptr : &trace);
  CopiesOutcome outcome{.outputs = PerDevice(static_cast<size_t>(program.num_devices)),
                        .seconds = time_since(start),
                        .evaluated = evaluated_steps(*compiled)};
  if (!command.trace.empty() && is_first_process()) write_trace(command.trace, trace, command.file);
  for (const auto& result : results) {
    const std::vector<Array> parts = gather_parts(*result);
    for (size_t d = 0; d < parts.size(); ++d) outcome.outputs[d].push_back(parts[d]);
  }
  return outcome;
}

PerDevice evaluate_copies(const CopiesProgram& program, const PerDevice& inputs) {
  std::vector<std::vector<Value>> arguments;
  for (const std::vector<Array>& device : inputs)
    arguments.push_back(pack_arguments(*program.module, device));
  PerDevice outputs;
  for (const Value& value : evaluate_devices(*program.module, program.num_devices, arguments))
    outputs.push_back(leaves(value));
  return outputs;
}

std::vector<Array> stack(const PerDevice& outputs) {
  std::vector<Array> stacked;
  for (size_t leaf = 0; leaf < outputs[0].size(); ++leaf) {
    Shape shape = outputs[0][leaf].shape();
    shape.dims.insert(shape.dims.begin(), static_cast<int64_t>(outputs.size()));
    Array array(Shape(shape.dtype, shape.dims));
    std::byte* to = array.bytes().data();
    for (const std::vector<Array>& device : outputs) {
      const std::span<std::byte> bytes = device[leaf].bytes();
      if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    }
    stacked.push_back(std::move(array));
  }
  return stacked;
}

}  // namespace gspmd::tools
