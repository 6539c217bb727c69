#include "gspmd/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "base/pages.h"
#include "gspmd/base/error.h"
#include "runtime/arena_guard.h"
#include "runtime/direct_run.h"
#include "runtime/program.h"
#include "runtime/schedule.h"
#include "runtime/trace_log.h"
#include "runtime/worker.h"

namespace gspmd {

// Whether the environment asks for a line for each op that runs.
static bool is_verbose() {
  const char* trace = std::getenv("GSPMD_TRACE");
  return trace != nullptr && std::string_view(trace) == "verbose";
}

struct Executor::Impl {
  std::shared_ptr<const Program> program;
  std::shared_ptr<WorkerPool> pool;
  std::vector<Shape> wanted;  // of argument leaves, without layouts
  TeamSchedule schedule;      // empty unless there are fewer devices than workers
  std::vector<char> shared_waits;
  bool shares_values = false;  // values that are the same on several devices are made and kept once
  std::byte* arena = nullptr;
  std::byte* scratch = nullptr;
  std::byte* shared = nullptr;  // of each worker, or of each device where these are fewer
  std::byte* common = nullptr;  // of all devices; nullptr: their steps do without
  int64_t arena_stride = 0, scratch_stride = 0, shared_stride = 0;
  std::vector<std::vector<std::byte*>> tables;  // [device][argument]
  std::vector<int64_t> moving;                  // arguments whose address changes from run to run
  std::vector<std::vector<std::shared_ptr<DeviceBuffer>>> recycled;  // [result leaf]
  ArenaGuard guard;
  DeviceRange local;               // devices of this process
  std::unique_ptr<Remote> remote;  // nullptr: there are no other processes
  std::vector<int32_t> told;       // by device
  std::vector<Claims> claims;
  Claims collective_claims;
  std::optional<Offers> offers;
  FirstFailure failure;
  std::optional<RunState> state;
  std::vector<Worker> crew;
  std::optional<DirectRun> direct;        // instead of the crew
  std::vector<uint64_t> placed;           // DeviceBuffer::placement of what the tables have
  TraceLog* log = nullptr;                // of the run in progress
  std::function<void(int)> walk_through;  // one worker
  // The caller writes these in every run: in lines that other workers do not read.
  alignas(64) RunCounters counters;
  bool ended_early = true;            // the last run, or there was none
  const bool verbose = is_verbose();  // asked once: it reads all of the environment

  int64_t devices() const { return program->options.num_devices; }
  int workers() const { return pool->size(); }

  ~Impl() {
    unpoison_memory(arena, arena_stride * local.count());
    unpoison_memory(scratch, scratch_stride * workers());
    unpoison_memory(shared, shared_stride * shares());
    unmap_pages(arena, arena_stride * local.count());
    unmap_pages(scratch, scratch_stride * workers());
    unmap_pages(shared, shared_stride * shares());
    if (common != nullptr) unmap_pages(common, program->common_bytes);
  }

  int64_t shares() const { return std::min<int64_t>(local.count(), workers()); }

  std::byte* arena_of(int64_t device) const {
    return arena + (device - local.first) * arena_stride;
  }

  void prepare() {
    local = local_devices(devices());
    for (const Shape& leaf : program->parameter_leaves) wanted.emplace_back(leaf.dtype, leaf.dims);
    Transport* const transport = devices() == 1 ? nullptr : current_transport();
    if (transport != nullptr) remote = std::make_unique<Remote>(*program, *transport);
    told.resize(static_cast<size_t>(devices()));
    if (block_cost(program->main) * static_cast<double>(local.count()) <
        program->options.alone_below)
      pool = make_worker_pool(1, PoolKind::threads);
    arena_stride = step_between(program->plan.arena_bytes);
    scratch_stride = ceil_div(program->scratch_bytes, 4096) * 4096;
    shared_stride = ceil_div(program->shared_bytes, 4096) * 4096;
    arena = pages_for(arena_stride * local.count());
    scratch = pages_for(scratch_stride * workers());
    shared = pages_for(shared_stride * shares());
    counters.arena_bytes = program->plan.arena_bytes;
    guard = ArenaGuard(*program, arena, arena_stride, local.first);
    for (int w = 0; w < workers(); ++w) {
      const int64_t used = program->scratch_bytes;
      poison_memory(scratch + w * scratch_stride + used, scratch_stride - used);
    }
    for (int64_t i = 0; i < shares(); ++i) {
      const int64_t used = program->shared_bytes;
      poison_memory(shared + i * shared_stride + used, shared_stride - used);
    }
    recycled.resize(program->result_leaves.size());
    if (local.count() < workers()) schedule = schedule_steps(*program);
    shares_values = remote == nullptr && schedule.steps.empty() && local.count() <= Claims::kMost;
    if (shares_values && program->common_bytes > 0) common = pages_for(program->common_bytes);
    shared_waits = waits_of_shared(*program);
    fill_tables();
    gather_crew();
    direct = DirectRun::of(*state, {scratch, shared});
  }

  // Nanoseconds that one device takes, roughly; infinite where nobody knows.
  double block_cost(const Block& block) const;
  void fill_tables();
  void gather_crew();

  static std::byte* pages_for(int64_t bytes) {
    std::byte* memory = map_pages(bytes);
    if (memory == nullptr && bytes > 0) execution_error("executor: no memory for {} bytes", bytes);
    return memory;
  }

  void check_arguments(std::span<const std::shared_ptr<DeviceBuffer>> arguments) const {
    if (arguments.size() != wanted.size()) {
      user_error("executor: {} argument buffers for {} parameter leaves", arguments.size(),
                 wanted.size());
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (arguments[i] == nullptr) user_error("executor: argument {} is null", i);
      const Shape& shape = arguments[i]->shape();
      if (!(shape == wanted[i]) || arguments[i]->num_devices() != devices()) {
        user_error("executor: argument {} is {} on {} devices; the program takes {} on {}", i,
                   to_string(shape), arguments[i]->num_devices(), to_string(wanted[i]), devices());
      }
    }
    for (const int64_t donor : program->donor) {
      if (donor < 0) continue;
      const DeviceBuffer* buffer = arguments[static_cast<size_t>(donor)].get();
      const auto uses = std::count_if(arguments.begin(), arguments.end(),
                                      [&](const auto& other) { return other.get() == buffer; });
      if (uses > 1) user_error("executor: argument {} is donated and passed {} times", donor, uses);
    }
  }

  const std::shared_ptr<DeviceBuffer>& result_buffer(size_t leaf) {
    for (std::shared_ptr<DeviceBuffer>& buffer : recycled[leaf]) {
      if (buffer.use_count() != 1) continue;
      std::atomic_thread_fence(std::memory_order_acquire);  // behind the last that read it
      return buffer;
    }
    const Shape& shape = program->result_leaves[leaf];
    recycled[leaf].push_back(
        std::make_shared<DeviceBuffer>(Shape(shape.dtype, shape.dims), devices()));
    return recycled[leaf].back();
  }

  void take_results(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
                    std::vector<std::shared_ptr<DeviceBuffer>>& results) {
    results.clear();
    results.resize(program->result_leaves.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const int64_t donor = program->donor[i];
      results[i] = donor >= 0 ? arguments[static_cast<size_t>(donor)] : result_buffer(i);
    }
  }

  // Whether the tables have these buffers, so that they have been checked, too.
  bool are_placed(std::span<const std::shared_ptr<DeviceBuffer>> buffers, size_t first) const {
    if (placed.size() < first + buffers.size()) return false;
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i] == nullptr || buffers[i]->placement() != placed[first + i]) return false;
    return true;
  }

  // What the last run has found and placed is not looked at again. False: it is no such run.
  bool run_directly(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
                    std::vector<std::shared_ptr<DeviceBuffer>>& results) {
    if (!direct || arguments.size() != wanted.size() || !are_placed(arguments, 0)) return false;
    take_results(arguments, results);
    if (!are_placed(results, arguments.size())) return false;
    direct->run();
    ++counters.runs;
    return true;
  }

  // Each result's memory as the program writes it: of donated arguments too.
  void share_results(const std::vector<std::shared_ptr<DeviceBuffer>>& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      const std::vector<int64_t>& holders = program->shared_results[i];
      if (shares_values && !holders.empty())
        results[i]->share(holders);
      else
        results[i]->separate();
    }
  }

  void poison(const std::vector<std::shared_ptr<DeviceBuffer>>& results) const;
  void place(std::span<const std::shared_ptr<DeviceBuffer>> arguments,
             const std::vector<std::shared_ptr<DeviceBuffer>>& results);
  void begin_rounds();
  void walk(TraceLog* run_log);
};

namespace {

constexpr int kPoison = 0xff;  // NaN as a float, -1 as an integer

}  // namespace

double Executor::Impl::block_cost(const Block& block) const {
  double cost = 0;
  for (const Block::Item& item : block.items) {
    const auto index = static_cast<size_t>(item.first);
    if (item.kind == Block::Item::segment) {
      for (int64_t i = item.first; i < item.last; ++i)
        cost += std::max(20.0, program->steps[static_cast<size_t>(i)].kernel.cost);
    } else if (item.kind == Block::Item::collective) {
      double bytes = 0;
      for (const Node* operand : program->collectives[index].node->operands())
        bytes += static_cast<double>(operand->shape.bytes());
      cost += 100 + 0.1 * bytes * static_cast<double>(devices());
    } else if (item.kind == Block::Item::loop) {
      const LoopStep& loop = *program->loops[index];
      if (!loop.trips) return std::numeric_limits<double>::infinity();
      cost += static_cast<double>(*loop.trips + 1) *
              (block_cost(loop.condition) + block_cost(loop.body));
    } else if (item.kind == Block::Item::branch) {
      double most = 0;
      for (const Block& inner : program->branches[index]->blocks)
        most = std::max(most, block_cost(inner));
      cost += most;
    }
  }
  return cost;
}

void Executor::Impl::fill_tables() {
  tables.assign(static_cast<size_t>(devices()), std::vector<std::byte*>(program->arguments.size()));
  for (size_t a = 0; a < program->arguments.size(); ++a) {
    const Slot& slot = program->arguments[a];
    if (slot.kind == BufferPlace::parameter || slot.kind == BufferPlace::output) {
      moving.push_back(static_cast<int64_t>(a));
      continue;
    }
    for (int64_t d = local.first; d < local.last; ++d) {
      std::byte*& entry = tables[static_cast<size_t>(d)][a];
      entry = slot.kind == BufferPlace::arena
                  ? arena_of(d) + slot.offset
                  : program->constants[static_cast<size_t>(slot.index)].bytes().data();
    }
  }
  for (const Program::Borrowed& borrowed : program->borrowed) {
    const auto a = static_cast<size_t>(borrowed.argument);
    for (int64_t d = local.first; d < local.last && shares_values; ++d)
      tables[static_cast<size_t>(d)][a] =
          arena_of(borrowed.keepers[static_cast<size_t>(d)]) + program->arguments[a].offset;
  }
}

void Executor::Impl::gather_crew() {
  collective_claims = Claims(workers());
  offers.emplace(workers());
  if (schedule.steps.empty()) {
    claims.emplace_back(workers());
  } else {  // as Worker counts them
    std::vector<int64_t> team(static_cast<size_t>(local.count()));
    for (int64_t w = 0; w < workers(); ++w)
      ++team[static_cast<size_t>(w * local.count() / workers())];
    for (const int64_t size : team) claims.emplace_back(size);
  }
  state.emplace(RunState{*program, *pool, schedule, shared_waits, guard, local, remote.get(),
                         counters, tables, told, claims, collective_claims, *offers, shares_values,
                         common, failure});
  crew.reserve(static_cast<size_t>(workers()));
  for (int64_t w = 0; w < workers(); ++w) {
    const int64_t share = schedule.steps.empty() ? w : w * local.count() / workers();
    crew.emplace_back(*state,
                      WorkerMemory{scratch + w * scratch_stride, shared + share * shared_stride},
                      static_cast<int>(w));
  }
  walk_through = [this](int worker) { crew[static_cast<size_t>(worker)].run(log); };
}

void Executor::Impl::poison(const std::vector<std::shared_ptr<DeviceBuffer>>& results) const {
  const int64_t bytes = arena_stride * local.count();
  unpoison_memory(arena, bytes);
  if (bytes > 0) std::memset(arena, kPoison, static_cast<size_t>(bytes));
  for (int w = 0; w < workers() && scratch_stride > 0; ++w) {
    std::memset(scratch + w * scratch_stride, kPoison, static_cast<size_t>(program->scratch_bytes));
  }
  for (int64_t i = 0; i < shares() && shared_stride > 0; ++i) {
    std::memset(shared + i * shared_stride, kPoison, static_cast<size_t>(program->shared_bytes));
  }
  if (common != nullptr) std::memset(common, kPoison, static_cast<size_t>(program->common_bytes));
  for (size_t i = 0; i < results.size(); ++i) {
    if (program->donor[i] >= 0) continue;
    for (int64_t d = local.first; d < local.last; ++d) {
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
    for (int64_t d = local.first; d < local.last; ++d) {
      std::byte*& entry = tables[static_cast<size_t>(d)][static_cast<size_t>(a)];
      std::byte* const shard = buffer.shard(d);
      if (entry != shard) entry = shard;  // else all workers would fetch its line again
    }
  }
  if (!direct) return;
  for (const auto& buffer : arguments) placed.push_back(buffer->placement());
  for (const auto& buffer : results) placed.push_back(buffer->placement());
}

// Claims go on with the rounds of the last run, unless workers left it in different ones.
void Executor::Impl::begin_rounds() {
  constexpr uint32_t kMostRounds = 1u << 30;
  const bool begins = ended_early || std::any_of(crew.begin(), crew.end(), [](const Worker& w) {
                        return w.rounds() > kMostRounds;
                      });
  ended_early = true;  // until it has ended
  if (!begins) return;
  for (Claims& shared : claims) shared.reset();
  collective_claims.reset();
  offers->reset();
  for (Worker& worker : crew) worker.begin_rounds();
}

// All workers through the program, and all processes.
void Executor::Impl::walk(TraceLog* run_log) {
  if (log != run_log) log = run_log;
  failure.reset();
  begin_rounds();
  try {
    if (remote) remote->begin_run(counters.runs);
    if (log != nullptr) log->begin();
    pool->run(walk_through);
    ended_early = false;
  } catch (const std::exception&) {
    const std::exception_ptr first =
        failure.error() != nullptr ? failure.error() : std::current_exception();
    if (!remote) std::rethrow_exception(first);
    try {
      std::rethrow_exception(first);
    } catch (const std::exception& error) {  // the others would wait for this process
      remote->transport().fail(error.what());
      throw;
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
  const bool is_watched = trace != nullptr || impl.verbose;
  if (!is_watched && impl.run_directly(arguments, results)) return;
  impl.placed.clear();
  impl.check_arguments(arguments);
  impl.take_results(arguments, results);
  impl.share_results(results);
  impl.place(arguments, results);
  if (impl.direct && !is_watched) {
    impl.direct->run();
    ++impl.counters.runs;
    return;
  }
  if (impl.program->options.poison) impl.poison(results);
  std::optional<TraceLog> log;
  if (is_watched)
    log.emplace(*impl.program, impl.workers(), trace == nullptr ? 0 : trace->max_events,
                impl.verbose);
  impl.walk(log ? &*log : nullptr);
  if (trace != nullptr) log->finish(*trace);
  if (trace != nullptr && impl.remote) merge_events(*trace, impl.remote->transport());
  ++impl.counters.runs;
}

const RunCounters& Executor::counters() const { return impl_->counters; }

}  // namespace gspmd
