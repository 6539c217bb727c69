#include "gspmd/runtime/executor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/loop_guard.h"
#include "runtime/arena_guard.h"
#include "runtime/collective_run.h"
#include "runtime/pages.h"
#include "runtime/program.h"
#include "runtime/schedule.h"
#include "runtime/trace_log.h"

namespace gspmd {

struct Executor::Impl {
  std::shared_ptr<const Program> program;
  std::shared_ptr<WorkerPool> pool;
  RunCounters counters;
  std::vector<StepSchedule> schedule;  // fewer devices than workers
  std::byte* arena = nullptr;
  std::byte* scratch = nullptr;
  int64_t arena_stride = 0, scratch_stride = 0;
  std::vector<std::vector<std::byte*>> tables;  // [device][argument]
  std::vector<int64_t> moving;                  // arguments whose address changes from run to run
  std::vector<std::vector<std::shared_ptr<DeviceBuffer>>> recycled;  // [result leaf]
  ArenaGuard guard;

  int64_t devices() const { return program->options.num_devices; }
  int workers() const { return pool->size(); }

  ~Impl() {
    unpoison_memory(arena, arena_stride * devices());
    unpoison_memory(scratch, scratch_stride * workers());
    unmap_pages(arena, arena_stride * devices());
    unmap_pages(scratch, scratch_stride * workers());
  }

  void prepare() {
    arena_stride = ceil_div(program->plan.arena_bytes, 64) * 64;
    scratch_stride = ceil_div(program->scratch_bytes, 4096) * 4096;
    arena = map_pages(arena_stride * devices());
    scratch = map_pages(scratch_stride * workers());
    counters.arena_bytes = program->plan.arena_bytes;
    guard = ArenaGuard(*program, arena, arena_stride);
    for (int w = 0; w < workers(); ++w) {
      const int64_t used = program->scratch_bytes;
      poison_memory(scratch + w * scratch_stride + used, scratch_stride - used);
    }
    recycled.resize(program->result_leaves.size());
    if (devices() < workers()) schedule = schedule_steps(*program);
    tables.assign(static_cast<size_t>(devices()),
                  std::vector<std::byte*>(program->arguments.size()));
    for (size_t a = 0; a < program->arguments.size(); ++a) {
      const Slot& slot = program->arguments[a];
      if (slot.kind == BufferPlace::parameter || slot.kind == BufferPlace::output) {
        moving.push_back(static_cast<int64_t>(a));
        continue;
      }
      for (int64_t d = 0; d < devices(); ++d) {
        std::byte*& entry = tables[static_cast<size_t>(d)][a];
        entry = slot.kind == BufferPlace::arena
                    ? arena + d * arena_stride + slot.offset
                    : program->constants[static_cast<size_t>(slot.index)].bytes().data();
      }
    }
  }

  void check_arguments(std::span<const std::shared_ptr<DeviceBuffer>> arguments) const {
    const std::vector<Shape>& wanted = program->parameter_leaves;
    if (arguments.size() != wanted.size()) {
      user_error("executor: {} argument buffers for {} parameter leaves", arguments.size(),
                 wanted.size());
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (arguments[i] == nullptr) user_error("executor: argument {} is null", i);
      const Shape& shape = arguments[i]->shape();
      if (!(shape == Shape(wanted[i].dtype, wanted[i].dims)) ||
          arguments[i]->num_devices() != devices()) {
        user_error("executor: argument {} is {} on {} devices; the program takes {} on {}", i,
                   to_string(shape), arguments[i]->num_devices(), to_string(wanted[i]), devices());
      }
    }
    std::vector<const DeviceBuffer*> donated;
    for (const int64_t donor : program->donor) {
      if (donor < 0) continue;
      const DeviceBuffer* buffer = arguments[static_cast<size_t>(donor)].get();
      const auto uses = std::count_if(arguments.begin(), arguments.end(),
                                      [&](const auto& other) { return other.get() == buffer; });
      if (uses > 1) user_error("executor: argument {} is donated and passed {} times", donor, uses);
    }
  }

  std::shared_ptr<DeviceBuffer> result_buffer(size_t leaf) {
    for (std::shared_ptr<DeviceBuffer>& buffer : recycled[leaf]) {
      if (buffer.use_count() == 1) return buffer;
    }
    const Shape& shape = program->result_leaves[leaf];
    recycled[leaf].push_back(
        std::make_shared<DeviceBuffer>(Shape(shape.dtype, shape.dims), devices()));
    return recycled[leaf].back();
  }

  void poison(const std::vector<std::shared_ptr<DeviceBuffer>>& results) const;
  void place(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
             const std::vector<std::shared_ptr<DeviceBuffer>>& results);
};

namespace {

// Whether the environment asks for a line for each op that runs.
bool is_verbose() {
  const char* trace = std::getenv("GSPMD_TRACE");
  return trace != nullptr && std::string_view(trace) == "verbose";
}

constexpr int kPoison = 0xff;  // NaN as a float, -1 as an integer

// One worker's walk through the program. All workers walk alike, so that they meet at the same
// barriers.
class Worker {
 public:
  Worker(RunCounters& counters, const Program& program, WorkerPool& pool,
         const std::vector<StepSchedule>& schedule,
         const std::vector<std::vector<std::byte*>>& tables, const ArenaGuard& guard,
         std::byte* scratch, int worker, TraceLog* log)
      : counters_(counters),
        program_(program),
        pool_(pool),
        schedule_(schedule),
        tables_(tables),
        guard_(guard),
        scratch_(scratch),
        worker_(worker),
        log_(log) {
    const int64_t devices = program.options.num_devices, workers = pool.size();
    if (devices >= workers) {
      for (int64_t d = 0; d < devices; ++d) {
        if (d * workers / devices == worker) own_.push_back(d);
      }
    } else {
      const int64_t device = worker * devices / workers;
      own_.push_back(device);
      for (int64_t w = 0; w < workers; ++w) {
        if (w * devices / workers != device) continue;
        if (w < worker) ++rank_;
        ++team_;
      }
    }
    if (log_ != nullptr) since_.assign(static_cast<size_t>(devices), 0);
  }

  void run() {
    const std::vector<char> active(static_cast<size_t>(program_.options.num_devices), 1);
    run_block(program_.main, active);
  }

 private:
  bool teams() const { return !schedule_.empty(); }

  void run_block(const Block& block, const std::vector<char>& active) {
    for (const Block::Item& item : block.items) {
      switch (item.kind) {
        case Block::Item::segment:
          if (teams()) {
            pool_.barrier(worker_);
            run_segment_together(item, active);
            pool_.barrier(worker_);
          } else {
            run_segment(item, active);
          }
          break;
        case Block::Item::collective:
          run_collective(program_.collectives[static_cast<size_t>(item.first)], active);
          break;
        case Block::Item::branch:
          around(log_ == nullptr ? 0 : log_->branch(item.first), active,
                 [&] { run_branch(*program_.branches[static_cast<size_t>(item.first)], active); });
          break;
        case Block::Item::loop:
          around(log_ == nullptr ? 0 : log_->loop(item.first), active,
                 [&] { run_loop(*program_.loops[static_cast<size_t>(item.first)], active); });
          break;
      }
    }
  }

  // Of several workers on one device, the first writes down what it does.
  bool records() const { return log_ != nullptr && rank_ == 0; }

  void record(int64_t site, int64_t device, int64_t begin, int64_t waited = 0) {
    const int64_t end = log_->now();
    log_->add(worker_, {site, device, begin, end, waited}, depth_ > 0);
    since_[static_cast<size_t>(device)] = end;
  }

  // A loop or conditional as an event around those inside.
  template <class F>
  void around(int64_t site, const std::vector<char>& active, F&& run) {
    if (log_ == nullptr) return run();
    const int64_t begin = log_->now();
    std::fill(since_.begin(), since_.end(), begin);
    ++depth_;
    run();
    --depth_;
    for (const int64_t device : own_)
      if (records() && active[static_cast<size_t>(device)]) record(site, device, begin);
  }

  KernelArgs args_of(const Step& step, int64_t device) const {
    std::byte* const* table = tables_[static_cast<size_t>(device)].data() + step.first_argument;
    return {table, table + step.operands, scratch_, device, 0};
  }

  void run_parts(const Step& step, int64_t device, int64_t first, int64_t last) const {
    KernelArgs args = args_of(step, device);
    try {
      for (args.part = first; args.part < last; ++args.part) step.kernel.run(args);
    } catch (const std::exception& error) {
      const auto* own = dynamic_cast<const Error*>(&error);
      const Site said = own != nullptr ? own->site() : Site{};  // of a node that the step calls
      throw ExecutionError(fmt::format("{} on device {}: {}", step.name, device, error.what()),
                           said.known() ? Site{} : place_of(*step.node));
    }
  }

  void run_segment(const Block::Item& item, const std::vector<char>& active) {
    for (const int64_t device : own_) {
      if (!active[static_cast<size_t>(device)]) continue;
      for (int64_t i = item.first; i < item.last; ++i) {
        const Step& step = program_.steps[static_cast<size_t>(i)];
        guard_.close(device);
        guard_.open(device, step.first_argument, step.operands + step.results);
        const int64_t begin = log_ == nullptr ? 0 : log_->now();
        run_parts(step, device, 0, step.kernel.parts);
        if (log_ != nullptr) record(TraceLog::step(i), device, begin);
      }
    }
  }

  // Several workers on one device: their steps may overlap, so what all of them touch is open.
  void open_segment(const Block::Item& item, int64_t device) {
    if constexpr (kGuardBytes == 0) return;
    if (rank_ == 0) {
      guard_.close(device);
      for (int64_t i = item.first; i < item.last; ++i) {
        const Step& step = program_.steps[static_cast<size_t>(i)];
        guard_.open(device, step.first_argument, step.operands + step.results);
      }
    }
    pool_.barrier(worker_);
  }

  // Several workers on one device; a device that sits out still meets the barriers.
  void run_segment_together(const Block::Item& item, const std::vector<char>& active) {
    const int64_t device = own_[0];
    const bool runs = active[static_cast<size_t>(device)] != 0;
    open_segment(item, device);
    for (int64_t i = item.first; i < item.last; ++i) {
      const Step& step = program_.steps[static_cast<size_t>(i)];
      const StepSchedule& schedule = schedule_[static_cast<size_t>(i)];
      // Recorded steps do not overlap on their device.
      if (schedule.barrier_before || log_ != nullptr) pool_.barrier(worker_);
      if (!runs) continue;
      const int64_t begin = log_ == nullptr ? 0 : log_->now();
      const int64_t parts = step.kernel.parts;
      if (schedule.split) {
        run_parts(step, device, rank_ * parts / team_, (rank_ + 1) * parts / team_);
      } else if (rank_ == 0) {
        run_parts(step, device, 0, parts);
      }
      if (records()) record(TraceLog::step(i), device, begin);
    }
  }

  void open_collective(const CollectiveStep& step) {
    if constexpr (kGuardBytes == 0) return;
    for (int64_t d = 0; worker_ == 0 && d < program_.options.num_devices; ++d) {
      guard_.close(d);
      guard_.open(d, step.first_argument, step.operands + step.results);
    }
    pool_.barrier(worker_);
  }

  void run_collective(const CollectiveStep& step, const std::vector<char>& active) {
    const CollectiveArgs args{&tables_, &active, program_.options.num_devices, pool_.size()};
    pool_.barrier(worker_);
    const int64_t begin = log_ == nullptr ? 0 : log_->now();
    open_collective(step);
    at_node(*step.node, [&] {
      check_active(step, args);
      gspmd::run_collective(step, args, worker_);
    });
    if (worker_ == 0) {
      ++counters_.collectives;
      counters_.bytes_received += bytes_received(step, args);
    }
    pool_.barrier(worker_);
    for (const int64_t device : own_) {
      if (!records() || !active[static_cast<size_t>(device)]) continue;
      const int64_t since = since_[static_cast<size_t>(device)];
      record(log_->collective(&step - program_.collectives.data()), device, since, begin - since);
    }
  }

  bool predicate(const LoopStep& loop, int64_t device) const {
    const std::byte* value =
        tables_[static_cast<size_t>(device)][static_cast<size_t>(loop.predicate_argument)];
    return *value != std::byte{0};
  }

  // Devices whose predicate is false leave the loop. Without a collective inside, each worker goes
  // through it alone with its own devices; else all keep in step.
  void run_loop(const LoopStep& loop, const std::vector<char>& before) {
    std::vector<char> active(before.size(), 0);
    const bool lockstep = loop.lockstep || teams();
    if (lockstep) {
      active = before;
    } else {
      for (const int64_t device : own_)
        active[static_cast<size_t>(device)] = before[static_cast<size_t>(device)];
    }
    LoopGuard guard(loop.name, loop.repeatable);
    int64_t devices = 0;  // that were in the last iteration
    while (true) {
      run_block(loop.condition, active);
      if (lockstep) pool_.barrier(worker_);
      bool any = false;
      for (size_t d = 0; d < active.size(); ++d) {
        active[d] = active[d] != 0 && predicate(loop, static_cast<int64_t>(d));
        any |= active[d] != 0;
      }
      const auto still = std::count(active.begin(), active.end(), 1);
      if (still != devices) guard.restart();
      devices = still;
      // In step, one worker watches, while the others wait; the pool ends them when it throws.
      if (any && (!lockstep || worker_ == 0))
        at_node(*loop.node, [&] {
          if (guard.begin_iteration()) watch(loop, active, guard);
        });
      if (lockstep) pool_.barrier(worker_);  // all have read the predicates
      if (!any) return;
      run_block(loop.body, active);
    }
  }

  void watch(const LoopStep& loop, const std::vector<char>& active, LoopGuard& guard) const {
    std::vector<std::span<const std::byte>> values;
    for (size_t d = 0; d < active.size(); ++d) {
      if (!active[d]) continue;
      std::byte* const* entry = tables_[d].data() + loop.first_carried;
      for (const int64_t bytes : loop.carried_bytes)
        values.emplace_back(*entry++, static_cast<size_t>(bytes));
    }
    guard.carried(values);
  }

  size_t chosen(const BranchStep& branch, int64_t device) const {
    const std::byte* value =
        tables_[static_cast<size_t>(device)][static_cast<size_t>(branch.selector_argument)];
    if (branch.is_pred) return *value != std::byte{0} ? 0 : 1;
    int32_t index = 0;
    std::memcpy(&index, value, sizeof(index));
    const auto last = static_cast<int32_t>(branch.blocks.size()) - 1;
    return static_cast<size_t>(index < 0 || index > last ? last : index);
  }

  // As run_loop: alone with the own devices where no collective is inside. The devices of one
  // branch after those of another.
  void run_branch(const BranchStep& branch, const std::vector<char>& before) {
    const bool lockstep = branch.lockstep || teams();
    std::vector<std::vector<char>> active(branch.blocks.size(),
                                          std::vector<char>(before.size(), 0));
    if (lockstep) pool_.barrier(worker_);  // all selectors are there
    for (int64_t d = 0; d < std::ssize(before); ++d) {
      const bool own = lockstep || std::find(own_.begin(), own_.end(), d) != own_.end();
      if (own && before[static_cast<size_t>(d)] != 0)
        active[chosen(branch, d)][static_cast<size_t>(d)] = 1;
    }
    if (lockstep) pool_.barrier(worker_);  // all have read the selectors
    for (size_t i = 0; i < active.size(); ++i) {
      if (std::find(active[i].begin(), active[i].end(), 1) != active[i].end())
        run_block(branch.blocks[i], active[i]);
    }
  }

  RunCounters& counters_;
  const Program& program_;
  WorkerPool& pool_;
  const std::vector<StepSchedule>& schedule_;
  const std::vector<std::vector<std::byte*>>& tables_;
  const ArenaGuard& guard_;
  std::byte* scratch_;
  int worker_;
  std::vector<int64_t> own_;
  int64_t rank_ = 0, team_ = 0;  // among the workers of one device
  TraceLog* log_;                // nullptr: nothing is written down
  std::vector<int64_t> since_;   // by device: the end of its last event
  int64_t depth_ = 0;            // of loops and conditionals
};

}  // namespace

void Executor::Impl::poison(const std::vector<std::shared_ptr<DeviceBuffer>>& results) const {
  unpoison_memory(arena, arena_stride * devices());
  if (arena_stride > 0) std::memset(arena, kPoison, static_cast<size_t>(arena_stride * devices()));
  for (int w = 0; w < workers() && scratch_stride > 0; ++w) {
    std::memset(scratch + w * scratch_stride, kPoison, static_cast<size_t>(program->scratch_bytes));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (program->donor[i] >= 0) continue;
    for (int64_t d = 0; d < devices(); ++d) {
      std::memset(results[i]->shard(d), kPoison, static_cast<size_t>(results[i]->shape().bytes()));
    }
  }
}

void Executor::Impl::place(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
                           const std::vector<std::shared_ptr<DeviceBuffer>>& results) {
  for (const int64_t a : moving) {
    const Slot& slot = program->arguments[static_cast<size_t>(a)];
    const auto index = static_cast<size_t>(slot.index);
    const DeviceBuffer& buffer =
        slot.kind == BufferPlace::parameter ? *arguments[index] : *results[index];
    for (int64_t d = 0; d < devices(); ++d) {
      tables[static_cast<size_t>(d)][static_cast<size_t>(a)] = buffer.shard(d);
    }
  }
}

Executor::Executor(std::shared_ptr<const Program> program, std::shared_ptr<WorkerPool> pool)
    : impl_(std::make_unique<Impl>()) {
  impl_->program = std::move(program);
  impl_->pool = std::move(pool);
  impl_->prepare();
}

Executor::~Executor() = default;

std::vector<std::shared_ptr<DeviceBuffer>> Executor::run(
    std::span<const std::shared_ptr<DeviceBuffer>> arguments) {
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  run(arguments, results);
  return results;
}

void Executor::run(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
                   std::vector<std::shared_ptr<DeviceBuffer>>& results, RunTrace* trace) {
  Impl& impl = *impl_;
  impl.check_arguments(arguments);
  results.clear();
  for (size_t i = 0; i < impl.program->result_leaves.size(); ++i) {
    const int64_t donor = impl.program->donor[i];
    results.push_back(donor >= 0 ? arguments[static_cast<size_t>(donor)] : impl.result_buffer(i));
  }
  impl.place(arguments, results);
  if (impl.program->options.poison) impl.poison(results);
  std::optional<TraceLog> log;
  const bool verbose = is_verbose();
  if (trace != nullptr || verbose)
    log.emplace(*impl.program, impl.workers(), trace == nullptr ? 0 : trace->max_events, verbose);
  impl.pool->run([&](int worker) {
    Worker(impl.counters, *impl.program, *impl.pool, impl.schedule, impl.tables, impl.guard,
           impl.scratch + worker * impl.scratch_stride, worker, log ? &*log : nullptr)
        .run();
  });
  if (trace != nullptr) log->finish(*trace);
  ++impl.counters.runs;
}

const RunCounters& Executor::counters() const { return impl_->counters; }

}  // namespace gspmd
