#pragma once

// The whole compiler as a list of passes.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/passes/collectives/all_reduce.h"
#include "gspmd/passes/collectives/schedule.h"
#include "gspmd/passes/collectives/windowed_einsum.h"
#include "gspmd/passes/compiled_module.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/memory/plan_memory.h"
#include "gspmd/passes/memory/recompute.h"
#include "gspmd/passes/partition/partition.h"
#include "gspmd/passes/pass_time.h"
#include "gspmd/passes/update/shard_updates.h"

namespace gspmd {

// How a module is compiled. What CompileOptions has by the same name means the same.
struct PipelineOptions {
  int64_t num_devices = 1;                     // of the mesh
  PropagateOptions propagate = {};             // of completion
  ShardUpdatesOptions shard_updates = {};      // of weight-update sharding
  bool run_propagation = true;                 // false: the shardings in the module as they stand
  bool verify_between = false;                 // verify the module after every pass
  bool poison_absent = false;                  // as PartitionOptions has it
  bool combine = true;                         // collective combining
  bool fuse = true;                            // elementwise chains into loops
  bool keep_uncombined = true;                 // false: nobody reads CompiledModule::uncombined
  WindowedEinsumOptions windowed_einsum = {};  // of looped products
  AllReduceOptions all_reduce = {};            // how all-reduces are carried out
  ScheduleOptions schedule = {};               // of collectives between processes
  bool cse_across_phases = false;              // docs/spec/partitioning.md 5.4
  int64_t memory_limit = INT64_MAX;            // bytes per device: above it, recompute()
  std::vector<std::string> disabled = {};      // pass names
  std::vector<std::string> dump_after = {};    // pass names; "all"
  // Called with the text after each pass of dump_after.
  std::function<void(const std::string& pass, const std::string& text)> dump = {};
  std::function<void(const PassTime& time)> on_pass = {};  // as each pass ends
  // Called with what the module allows and does not get, in words.
  std::function<void(const std::string& note)> on_note = {};
};

// The whole compiler: a list of named passes. GSPMD_DUMP=dir in the environment writes each pass's
// text.
GSPMD_API CompiledModule run_pipeline(const Module& module, const PipelineOptions& options);
GSPMD_API CompiledModule run_pipeline(std::unique_ptr<Module> module,
                                      const PipelineOptions& options);

// Of a module that is per-device as it was given: `program` and `plan` alone. Its fusions run as
// kernels.
GSPMD_API CompiledModule prepare_local(const Module& local, const ScheduleOptions& schedule = {});

}  // namespace gspmd
