#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/kernels/worker_pool.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/evaluated_step.h"
#include "gspmd/runtime/run_counters.h"
#include "tools/command.h"

namespace gspmd::tools {

// What each device of a run needs beside its values: tables, lists of arrays.
constexpr int64_t kDeviceBytes = 1024;

// A module compiled for its num_partitions devices, not yet run.
struct Prepared {
  CompiledModule compiled;
  double compile_seconds = 0;
  int64_t num_devices = 1;
  int64_t bytes() const;  // of all devices of this process
};
Prepared prepare(const Module& module, const PipelineOptions& options);

// The same computation for one device: no shardings, no Sharding ops. UserError where the module
// has manual regions, which have no meaning there.
std::unique_ptr<Module> for_one_device(const Module& module);

// a+b+..., INT64_MAX where that is too large.
int64_t sum_bytes(std::initializer_list<int64_t> terms);
// Bytes of all parameters, and of all results, on the host.
int64_t input_bytes(const Module& module);
int64_t output_bytes(const Module& module);
// UserError when `bytes` are more than the machine has free for this process.
void check_memory(const std::string& what, int64_t bytes);

// UserError when `devices` runs of the local program have so much to compute and to move that they
// could not end within the time limit on any machine that runs this.
void check_time(const std::string& what, const Module& local, int64_t devices,
                const Command& command);

struct Outcome {
  std::vector<Array> outputs;  // result leaves, gathered
  double seconds = 0;          // of the run itself
  RunCounters counters;
  std::vector<EvaluatedStep> evaluated;  // what has no kernel
};
// As many workers as the command says, else as are this process's.
std::shared_ptr<WorkerPool> worker_pool(const Command& command);
// Host arrays to the devices, one run, results back; of all processes together.
Outcome execute(const Prepared& prepared, std::span<const Array> inputs, const Command& command);

}  // namespace gspmd::tools
