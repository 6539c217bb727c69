#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/device_storage.h"
#include "gspmd/api/compile.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/memory/plan_memory.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/executor.h"

namespace gspmd {

struct ExecutableBase::Impl {
  Traced traced;
  CompileOptions options;
  CompiledModule stages;
  ExecutableStats stats;
  std::vector<Sharding>
      parameter_shardings;  // entry parameters: argument leaves, then captured arrays
  std::vector<Sharding> result_shardings;
  // The same, as arrays on the devices have them; equal ones are one object.
  std::vector<std::shared_ptr<const detail::DeviceLayout>> parameter_layouts, result_layouts;
  // As they lie on the devices; others than the traced ones are flat, [elements].
  std::vector<Shape> parameter_shapes, result_shapes;
  std::vector<bool> donated;               // per argument leaf
  bool donates = false;                    // any of them
  std::shared_ptr<const Program> program;  // nullptr when not prepared

  // What running adds.
  std::unique_ptr<Executor> executor;
  std::vector<std::shared_ptr<DeviceBuffer>> captured;
  int64_t calls = 0;
  std::string trace_path;  // of the next call; empty: not recorded
  // Room of the call in progress, kept between calls.
  std::mutex call_mutex;
  std::vector<const Array*> call_leaves;
  std::optional<std::pair<size_t, std::string>> wrong_leaf;  // the first with another path
  // By argument leaf: where arrays of the host are put, from call to call.
  std::vector<std::shared_ptr<DeviceBuffer>> staged;
  std::vector<std::shared_ptr<DeviceBuffer>> call_buffers;
  std::vector<std::shared_ptr<DeviceBuffer>> call_outputs;
  std::vector<Array> call_results;
  bool keeps_results = false;  // small ones stay, and are used again where nobody else has them

  int64_t num_devices() const { return options.mesh.num_devices(); }
  void log(const std::string& message) const {
    if (options.log) options.log(message);
  }
};

namespace detail {

// Leaves of donated arguments paired with result leaves: Module::aliases of the traced program.
// UserError where an argument has no result of its type, or the trees differ.
std::vector<Alias> pair_donated_leaves(const Traced& traced, const CompileOptions& options);

// Leaves that are arguments and results under one path, by number: the donated ones, or, where none
// is, all.
std::vector<StatePair> pair_state_leaves(const Traced& traced, const CompileOptions& options);

ExecutableStats program_stats(const ExecutableBase::Impl& impl);

}  // namespace detail
}  // namespace gspmd
