#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/kernels/worker_pool.h"
#include "gspmd/ops/loop_guard.h"
#include "gspmd/runtime/processes.h"
#include "runtime/arena_guard.h"
#include "runtime/claims.h"
#include "runtime/offers.h"
#include "runtime/program.h"
#include "runtime/remote.h"
#include "runtime/schedule.h"
#include "runtime/trace_log.h"

namespace gspmd {

// What a step of a device threw, with the step's name, the device and the user's line.
ExecutionError located_error(const Step& step, int64_t device, const std::exception& error);

// What went wrong first in the order of the program: which worker meets it is a matter of luck.
class FirstFailure {
 public:
  struct Place {
    uint32_t round = 0;
    int64_t device = 0, part = 0;
    auto operator<=>(const Place&) const = default;
  };
  void reset() {
    if (error_ != nullptr) error_ = nullptr;
  }
  void note(const Place& place, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && place_ <= place) return;
    place_ = place;
    error_ = std::move(error);
  }
  const std::exception_ptr& error() const { return error_; }  // after the run

 private:
  std::mutex mutex_;
  Place place_;
  std::exception_ptr error_;
};

// What the workers of an executor share.
struct RunState {
  const Program& program;
  WorkerPool& pool;
  const TeamSchedule& schedule;           // empty: each device has one worker
  const std::vector<char>& shared_waits;  // as waits_of_shared() says
  const ArenaGuard& guard;
  DeviceRange local;  // devices of this process
  Remote* remote;     // nullptr: there are no other processes
  RunCounters& counters;
  std::vector<std::vector<std::byte*>>& tables;  // [device][argument]
  std::vector<int32_t>& told;   // by device: what other processes say of loops and branches
  std::vector<Claims>& claims;  // of the devices, or, fewer than workers, of each one's parts
  Claims& collective_claims;    // of all workers: pieces of collectives
  Offers& offers;               // of all workers: parts of steps
  bool shares;                  // values that devices share are made once
  std::byte* common;            // what common stages write; nullptr: they do not run
  FirstFailure& failure;
};

struct WorkerMemory {
  std::byte* scratch = nullptr;  // of this worker
  std::byte* shared = nullptr;   // of all workers of its device
};

// One worker's walk through the program. All workers walk alike, so that they meet at the same
// barriers; and so do the processes, at loops, branches and collectives that they share.
class Worker {
 public:
  Worker(const RunState& state, WorkerMemory memory, int worker);

  // Once through the program. `log` nullptr: nothing is written down.
  void run(TraceLog* log);
  // Of claims so far. They go on from run to run; begin_rounds() where the claims are reset.
  uint32_t rounds() const { return std::max(round_, collective_round_); }
  void begin_rounds() {
    round_ = collective_round_ = 0;
    devices_done_ = 0;
  }

 private:
  // What workers have done since all met.
  enum class Since : uint8_t { nothing, own_devices, exchange };
  void meet();
  void meet_after(Since since);
  using Active = std::vector<char>;  // by device

  // Whether several workers share the steps of a device.
  bool teams() const { return !alone_ && !state_.schedule.steps.empty(); }
  bool records() const { return log_ != nullptr && rank_ == 0; }
  void record(int64_t site, int64_t device, int64_t begin, int64_t waited = 0);
  // run() by the first worker of each device, without its team, where `by_one` says so.
  template <class F>
  void with_team(const std::vector<char>& by_one, size_t index, F&& run);
  template <class F>
  void around(int64_t site, const Active& active, F&& run);

  void run_block(const Block& block, const Active& active);
  KernelArgs args_of(const Step& step, int64_t device) const;
  using Stage = const std::function<void(const KernelArgs&)>&;
  void run_parts(const Step& step, Stage stage, int64_t device, int64_t first, int64_t last) const;
  void run_part(const Step& step, Stage stage, const KernelArgs& args) const;
  void run_step(const Step& step, int64_t device) const;
  void run_segment(const Block::Item& item, const Active& active);
  void run_segment_on(int64_t device, const Block::Item& item, bool offers);
  void offer_parts(const Step& step, Stage stage, int64_t device, int64_t parts);
  void take_offered(OfferedParts& offer, int64_t part) const;
  void help();
  void share_parts(const Step& step, Stage stage, int64_t device, int64_t parts);
  void open_segment(const Block::Item& item, int64_t device);
  void run_segment_together(const Block::Item& item, const Active& active);
  void run_common_stages(const Block::Item& item);
  void open_shared(const Block::Item& item);
  void run_shared(const Block::Item& item);
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

  alignas(64) const RunState& state_;  // no line is shared with another worker
  const Program& program_;
  WorkerPool& pool_;
  WorkerMemory memory_;
  int worker_;
  std::vector<int64_t> own_;
  int64_t rank_ = 0, team_ = 0;  // among the workers of one device
  bool alone_ = false;           // the team waits behind the loop or branch
  const Active all_;
  uint32_t round_ = 0, collective_round_ = 0;  // of claims
  uint64_t devices_done_ = 0;                  // when all are through with the segments so far
  Since done_ = Since::nothing;
  TraceLog* log_ = nullptr;     // nullptr: nothing is written down
  std::vector<int64_t> since_;  // by device: the end of its last event
  int64_t depth_ = 0;           // of loops and conditionals
};

}  // namespace gspmd
