#pragma once

#include <cstdint>
#include <vector>

#include "gspmd/kernels/worker_pool.h"
#include "gspmd/ops/loop_guard.h"
#include "gspmd/runtime/processes.h"
#include "runtime/arena_guard.h"
#include "runtime/program.h"
#include "runtime/remote.h"
#include "runtime/schedule.h"
#include "runtime/trace_log.h"

namespace gspmd {

// What the workers of one run share.
struct RunState {
  const Program& program;
  WorkerPool& pool;
  const std::vector<StepSchedule>& schedule;  // empty: each device has one worker
  const ArenaGuard& guard;
  DeviceRange local;  // devices of this process
  Remote* remote;     // nullptr: there are no other processes
  RunCounters& counters;
  std::vector<std::vector<std::byte*>>& tables;  // [device][argument]
  std::vector<int32_t>& told;  // by device: what other processes say of loops and branches
};

// One worker's walk through the program. All workers walk alike, so that they meet at the same
// barriers; and so do the processes, at loops, branches and collectives that they share.
class Worker {
 public:
  // `log` nullptr: nothing is written down.
  Worker(const RunState& state, std::byte* scratch, int worker, TraceLog* log);

  void run();

 private:
  using Active = std::vector<char>;  // by device

  bool teams() const { return !state_.schedule.empty(); }
  bool records() const { return log_ != nullptr && rank_ == 0; }
  void record(int64_t site, int64_t device, int64_t begin, int64_t waited = 0);
  template <class F>
  void around(int64_t site, const Active& active, F&& run);

  void run_block(const Block& block, const Active& active);
  KernelArgs args_of(const Step& step, int64_t device) const;
  void run_parts(const Step& step, int64_t device, int64_t first, int64_t last) const;
  void run_segment(const Block::Item& item, const Active& active);
  void open_segment(const Block::Item& item, int64_t device);
  void run_segment_together(const Block::Item& item, const Active& active);
  void open_collective(const CollectiveStep& step);
  void start_collective(const CollectiveStep& step, const Active& active);
  void progress();
  void run_collective(const CollectiveStep& step, const Active& active);

  // Devices that go into a loop or branch together: those that this worker, this process or all
  // processes keep in step.
  Active members(const Active& before, bool lockstep, bool across) const;
  bool predicate(const LoopStep& loop, int64_t device) const;
  void run_loop(const LoopStep& loop, const Active& before);
  bool goes_on(const LoopStep& loop, bool across, int64_t iteration, Active& active);
  void watch(const LoopStep& loop, bool across, const Active& active, LoopGuard& guard) const;
  size_t chosen(const BranchStep& branch, int64_t device) const;
  void run_branch(const BranchStep& branch, const Active& before);
  // Worker 0: value(device) of the active devices here to all processes, theirs into `told`.
  template <class F>
  void tell(const Node& node, const Active& active, F&& value);

  const RunState& state_;
  const Program& program_;
  WorkerPool& pool_;
  std::byte* scratch_;
  int worker_;
  std::vector<int64_t> own_;
  int64_t rank_ = 0, team_ = 0;  // among the workers of one device
  TraceLog* log_;                // nullptr: nothing is written down
  std::vector<int64_t> since_;   // by device: the end of its last event
  int64_t depth_ = 0;            // of loops and conditionals
};

}  // namespace gspmd
