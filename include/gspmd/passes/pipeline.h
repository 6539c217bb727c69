#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/passes/partition.h"
#include "gspmd/passes/propagate.h"
#include "gspmd/passes/windowed_einsum.h"

namespace gspmd {

struct PassTime {
  std::string pass;
  double seconds = 0;
};

struct PipelineOptions {
  int64_t num_devices = 1;
  PropagateOptions propagate;
  bool run_propagation = true;
  bool verify_between = false;
  bool combine = true;  // collective combining
  bool fuse = true;
  WindowedEinsumOptions windowed_einsum;
  bool cse_across_phases = false;       // design.md 2.15
  std::vector<std::string> disabled;    // pass names
  std::vector<std::string> dump_after;  // pass names; "all"
  std::function<void(const std::string& pass, const std::string& text)> dump;
  std::function<void(const PassTime& time)> on_pass;  // as each pass ends
};

struct CompiledModule {
  std::unique_ptr<Module> completed;   // global shapes, every sharding known
  std::unique_ptr<Module> uncombined;  // per-device, after clean-up, before combining and fusing
  std::unique_ptr<Module> local;       // per-device, combined; before fusing
  std::unique_ptr<Module> program;     // what runs
  std::vector<FullRematerialization> full_rematerializations;
  std::vector<PassTime> seconds;
};

// The whole compiler: a list of named passes. GSPMD_DUMP=dir in the environment writes each pass's
// text.
GSPMD_API CompiledModule run_pipeline(const Module& module, const PipelineOptions& options);

GSPMD_API std::vector<std::string> pass_names();

}  // namespace gspmd
