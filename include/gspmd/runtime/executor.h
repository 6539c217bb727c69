#pragma once

// Running per-device programs on the simulated mesh.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"
#include "gspmd/kernels/worker_pool.h"
#include "gspmd/runtime/evaluated_step.h"
#include "gspmd/runtime/processes.h"
#include "gspmd/runtime/run_counters.h"
#include "gspmd/runtime/run_trace.h"

namespace gspmd {

// One leaf on all devices of a mesh, of which this process has the parts of its own: `shard(d)` is
// device d's 64-aligned local bytes. Shared by reference; an executor recycles the storage of the
// buffers it handed out.
class GSPMD_API DeviceBuffer {
 public:
  // Zeros on every device that this process hosts. UserError: too large, or a mesh smaller than
  // the number of processes.
  DeviceBuffer(Shape local_shape, int64_t num_devices);
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();
  const Shape& shape() const { return shape_; }         // of one device's part
  int64_t num_devices() const { return num_devices_; }  // that hold a part
  const DeviceRange& local() const { return local_; }   // those of them in this process
  // Row-major elements of one device's part, one of `local()`.
  std::byte* shard(int64_t device) const {
    const int64_t at = device - local_.first;
    return data_ + (holders_.empty() ? at : holders_[static_cast<size_t>(at)]) * stride_;
  }
  // Of where the parts lie: a number that no other buffer has had, and this one not before they
  // moved.
  uint64_t placement() const { return placement_; }
  // From now on device d of this process has the part of device holders[d], which is its own
  // holder.
  void share(const std::vector<int64_t>& holders);
  void separate();  // Again a part for each device, with the same elements.

 private:
  Shape shape_;
  int64_t num_devices_ = 0, stride_ = 0;
  DeviceRange local_;
  std::byte* data_ = nullptr;
  uint64_t placement_ = 0;
  std::vector<int64_t> holders_;  // by device from local_.first on; empty: each its own
};

// How a program is prepared.
struct ProgramOptions {
  int64_t num_devices = 1;         // of the mesh
  bool reference_kernels = false;  // every op by its reference kernel
  bool poison = false;  // fill arena and outputs with NaN / 0x80 patterns before each run
  // A program that one thread runs in less time, by a rough estimate, runs on the calling thread:
  // waking others takes longer than they save. In nanoseconds.
  double alone_below = 0;
  // How an array lies on the devices.
  struct Layout {
    Shape global;       // of the whole array
    Sharding sharding;  // over all devices
  };
  // Of the parameter leaves. Where several devices have the same part of one that is donated, and
  // of what becomes of it, the executor keeps it once for them: then only the first one's part is
  // read. Empty: not known.
  std::vector<Layout> parameters = {};
};

// A per-device module made ready to run: kernels prepared, memory planned. Immutable; one program
// may have several executors.
class Program;
struct CompiledModule;  // passes/pipeline.h
// Keeps the compiled program and its plan. UserError where an op cannot run (names it).
GSPMD_API std::shared_ptr<const Program> build_program(const CompiledModule& compiled,
                                                       const ProgramOptions& options);
// Of a module that is per-device as it was given.
GSPMD_API std::shared_ptr<const Program> build_program(const Module& local,
                                                       const ProgramOptions& options);
// Bytes that kernels need beside the plan, per worker thread; a part of them per device where
// devices are fewer.
GSPMD_API int64_t scratch_bytes(const Program& program);
// What of it has no kernel, in order, in loops and branches too, then collectives. Debug calls and
// single elements do not count.
GSPMD_API std::vector<EvaluatedStep> evaluated_steps(const Program& program);

// Runs a program in lockstep (docs/spec/running.md 1). Owns the arenas. Not thread-safe. Of a job
// of several processes each runs its own devices, and all call together.
class GSPMD_API Executor {
 public:
  // Takes room for the arenas of this process's devices. ExecutionError: other processes have
  // another program; says which, and where it differs.
  Executor(std::shared_ptr<const Program> program, std::shared_ptr<WorkerPool> pool);
  ~Executor();

  // A buffer per entry parameter leaf, local shapes; returns one per result leaf, to be read only:
  // devices' parts that are the same may be one. A parameter leaf that module.aliases donates must
  // not be used afterwards: a result is there. ExecutionError names op, devices, failing process.
  std::vector<std::shared_ptr<DeviceBuffer>> run(
      std::span<const std::shared_ptr<DeviceBuffer>> arguments);
  // The same into `results`, whose room is reused from call to call. With GSPMD_TRACE=verbose in
  // the environment, each operation that has run is a line on the standard error: its device, time,
  // shapes and source.
  void run(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
           std::vector<std::shared_ptr<DeviceBuffer>>& results, RunTrace* trace = nullptr);

  const RunCounters& counters() const;  // Zeros before the first run.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Host array -> shards: the tile of each device of this process by `sharding` (tails of uneven dims
// zero).
GSPMD_API std::shared_ptr<DeviceBuffer> scatter_to_devices(const Array& global,
                                                           const Sharding& sharding,
                                                           int64_t num_devices);
// The whole array, in every process: all call it together where the parts lie in several, and none
// needs to where each process has all of the array. Replicated parts are read from the first device
// that has them, of this process where one of its devices does.
GSPMD_API Array gather_to_host(const DeviceBuffer& buffer, const Shape& global,
                               const Sharding& sharding);
// Each device's part, by device, in every process; all call it together.
GSPMD_API std::vector<Array> gather_parts(const DeviceBuffer& buffer);

}  // namespace gspmd
