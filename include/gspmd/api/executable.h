#pragma once

// Compiled programs: running them, and looking at what they are.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/stats.h"
#include "gspmd/api/trace.h"
#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/passes/compiled_module.h"
#include "gspmd/runtime/run_counters.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd {

// Which program of a compilation a text is of.
enum class TextStage : uint8_t {
  completed,  // the whole module with every sharding
  local,      // the one program that every device runs
};
// How a compiled program is printed.
struct TextOptions {
  Language form = Language::hlo;       // HLO text, or StableHLO with `mhlo.sharding`
  TextStage stage = TextStage::local;  // before or after partitioning
  bool locations = false;              // the user's lines as loc(...); HLO has them as metadata
};

// A compiled program without the types of its arguments; what Executable adds is operator().
class GSPMD_API ExecutableBase {
 public:
  struct Impl;
  // Used by compile().
  explicit ExecutableBase(std::shared_ptr<Impl> impl);

  // The program as text that reads back as the same: the one per-device program as HLO text where
  // `options` says nothing else. UserError: StableHLO has no word for an element type.
  std::string text(const TextOptions& options = {}) const;
  // Collectives with bytes and causes, floating-point operations and peak memory of one device.
  const ExecutableStats& stats() const;
  const Traced& traced() const;  // before completion
  // Stages: completed, uncombined, local, program (gspmd/passes/compiled_module.h,
  // gspmd/ir/module.h).
  const CompiledModule& module() const;
  const Mesh& mesh() const;     // as given to compile
  int64_t num_devices() const;  // of the mesh

  // How leaves are laid out, by path ("params.blocks.0.wq") or position. UserError names similar
  // paths. Of one that lies flat (WeightUpdate): how its elements are split, in row-major order.
  const Sharding& parameter_sharding(const std::string& path, Site site = Site::here()) const;
  const Sharding& parameter_sharding(int64_t leaf, Site site = Site::here()) const;
  // As parameter_sharding, of the results.
  const Sharding& result_sharding(const std::string& path, Site site = Site::here()) const;
  const Sharding& result_sharding(int64_t leaf, Site site = Site::here()) const;
  RunCounters counters() const;  // zeros before the first run

  // The next call is recorded: what each device does when, written to `path` for a trace viewer as
  // write_trace says. Results are the same bits. UserError, at once, where the file cannot be
  // written.
  void trace(const std::string& path, Site site = Site::here()) const;

  const std::string& argument_name(size_t argument) const;  // as given or "arg0"; or a UserError

 protected:
  std::shared_ptr<Impl> impl_;  // shared with all copies
};

// One call in progress: argument leaves in order, then run, then result leaves. Keeps its room from
// call to call, so that a step allocates nothing large; calls from several threads wait for each
// other.
class GSPMD_API ExecutableCall {
 public:
  // Waits for other calls of the same program to end, then begins.
  explicit ExecutableCall(ExecutableBase::Impl& impl);
  ExecutableCall(const ExecutableCall&) = delete;
  ExecutableCall& operator=(const ExecutableCall&) = delete;
  ~ExecutableCall();  // forgets the arrays

  // The next argument leaf, which has to stay where it is until run() ends. UserError: its path,
  // shape or dtype is not the traced one, it is empty or donated.
  void argument(const std::string& path, const Array& array);
  // Runs the program on the leaves given. ExecutionError names op and devices.
  void run(Site site);
  const Array& result(size_t leaf) const;  // result leaves in order, after run()

 private:
  ExecutableBase::Impl& impl_;  // locked
};

// A compiled function: fn's signature with Array for Tensor. Copies share the program.
// What a call returns stays on the devices; passing it back with the sharding it has costs nothing.
// Reading it gathers it once into a host copy; writing through data() changes that copy only.
// A donated argument must not be used afterwards. UserError: leaves whose path, count, shape or
// dtype differ from the traced ones, an array used after donation or passed twice.
template <class Result, class... Args>
class Executable : public ExecutableBase {
 public:
  // Used by compile().
  Executable(std::shared_ptr<Impl> impl, Result prototype)
      : ExecutableBase(std::move(impl)), prototype_(std::move(prototype)) {}

  // Runs one step. Arguments are trees of arrays as compile() got them, on the host or the devices.
  Result operator()(const Args&... args, Site site = Site::here()) const {
    ExecutableCall call(*impl_);
    size_t argument = 0;
    (append(call, args, argument++), ...);
    call.run(site);
    size_t next = 0;
    return map_tree(prototype_,
                    [&](const std::string&, const Array&) { return call.result(next++); });
  }

 private:
  template <class Arg>
  void append(ExecutableCall& call, const Arg& arg, size_t argument) const {
    for_each_leaf(
        arg, [&](const std::string& path, const Array& leaf) { call.argument(path, leaf); },
        argument_name(argument));
  }

  Result prototype_;  // structure only
};

}  // namespace gspmd
