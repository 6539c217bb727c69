#include "runtime/worker.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "runtime/collective_run.h"

namespace gspmd {
namespace {

// Nanoseconds of a part that is worth another worker's fetching its data.
constexpr double kOfferedCost = 20000;

void wait_a_little(int64_t turn) {
  constexpr int64_t kSpins = 200;
  if (turn > kSpins) std::this_thread::yield();
}

}  // namespace

ExecutionError located_error(const Step& step, int64_t device, const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const Site said = own != nullptr ? own->site() : Site{};  // of a node that the step calls
  return ExecutionError(fmt::format("{} on device {}: {}", step.name, device, error.what()),
                        said.known() ? Site{} : place_of(*step.node));
}

Worker::Worker(const RunState& state, WorkerMemory memory, int worker)
    : state_(state),
      program_(state.program),
      pool_(state.pool),
      memory_(memory),
      worker_(worker),
      all_(static_cast<size_t>(program_.options.num_devices), 1) {
  const int64_t devices = state.local.count(), workers = pool_.size(), first = state.local.first;
  if (devices >= workers) {
    for (int64_t d = 0; d < devices; ++d) {
      if (d * workers / devices == worker) own_.push_back(first + d);
    }
  } else {
    const int64_t device = worker * devices / workers;
    own_.push_back(first + device);
    for (int64_t w = 0; w < workers; ++w) {
      if (w * devices / workers != device) continue;
      if (w < worker) ++rank_;
      ++team_;
    }
  }
}

void Worker::run(TraceLog* log) {
  log_ = log;
  done_ = Since::nothing;
  alone_ = false;
  depth_ = 0;
  if (log_ != nullptr) since_.assign(static_cast<size_t>(program_.options.num_devices), 0);
  run_block(program_.main, all_);
}

void Worker::meet() {
  pool_.barrier(worker_);
  done_ = Since::nothing;
}

// All meet if they have done that much since they met.
void Worker::meet_after(Since since) {
  if (done_ >= since) meet();
}

// Who is through with an exchange need not wait for the others until somebody wants its results, or
// writes where they read.
void Worker::run_block(const Block& block, const Active& active) {
  for (const Block::Item& item : block.items) {
    const auto index = static_cast<size_t>(item.first);
    if (item.kind == Block::Item::collective) {
      run_collective(program_.collectives[index], active);
      continue;
    }
    meet_after(Since::exchange);
    switch (item.kind) {
      case Block::Item::segment:
        if (item.shared) meet_after(Since::own_devices);
        if (item.shared && state_.shares) {
          run_shared(item);
        } else if (teams()) {
          meet_after(Since::own_devices);
          run_segment_together(item, active);
        } else {
          if (item.common && state_.common != nullptr) run_common_stages(item);
          run_segment(item, active);
        }
        break;
      case Block::Item::start:
        start_collective(program_.collectives[index], active);
        break;
      case Block::Item::branch:
        with_team(state_.schedule.branches_alone, index, [&] {
          around(log_ == nullptr ? 0 : log_->branch(item.first), active,
                 [&] { run_branch(*program_.branches[index], active); });
        });
        break;
      case Block::Item::loop:
        with_team(state_.schedule.loops_alone, index, [&] {
          around(log_ == nullptr ? 0 : log_->loop(item.first), active,
                 [&] { run_loop(*program_.loops[index], active); });
        });
        break;
      case Block::Item::collective:
        break;
    }
    done_ = Since::own_devices;
    if (item.kind == Block::Item::segment && (teams() || item.shared)) meet();
  }
}

// Of several workers on one device, the first writes down what it does.
void Worker::record(int64_t site, int64_t device, int64_t begin, int64_t waited) {
  const int64_t end = log_->now();
  log_->add(worker_, {site, device, begin, end, waited}, depth_ > 0);
  since_[static_cast<size_t>(device)] = end;
}

// Who meets nobody in a loop of small steps takes half the time.
template <class F>
void Worker::with_team(const std::vector<char>& by_one, size_t index, F&& run) {
  if (!teams() || by_one[index] == 0) return run();
  if (rank_ != 0) return;
  alone_ = true;
  run();
  alone_ = false;
}

// A loop or conditional as an event around those inside.
template <class F>
void Worker::around(int64_t site, const Active& active, F&& run) {
  if (log_ == nullptr) return run();
  const int64_t begin = log_->now();
  std::fill(since_.begin(), since_.end(), begin);
  ++depth_;
  run();
  --depth_;
  for (const int64_t device : own_)
    if (records() && active[static_cast<size_t>(device)]) record(site, device, begin);
}

KernelArgs Worker::args_of(const Step& step, int64_t device) const {
  std::byte* const* table = state_.tables[static_cast<size_t>(device)].data() + step.first_argument;
  std::byte* const common = state_.common == nullptr || step.common.holders.empty()
                                ? nullptr
                                : state_.common + step.common.offset[static_cast<size_t>(device)];
  return {table, table + step.operands, memory_.scratch, device, 0, memory_.shared, common};
}

void Worker::run_parts(const Step& step, Stage stage, int64_t device, int64_t first,
                       int64_t last) const {
  KernelArgs args = args_of(step, device);
  for (args.part = first; args.part < last; ++args.part) run_part(step, stage, args);
}

void Worker::run_part(const Step& step, Stage stage, const KernelArgs& args) const {
  try {
    const TimedWork work(*step.node, /*says_node=*/false);
    stage(args);
  } catch (const std::exception& error) {
    const ExecutionError located = located_error(step, args.device, error);
    state_.failure.note({round_, args.device, args.part}, std::make_exception_ptr(located));
    throw located;
  }
}

// All of it by this worker.
void Worker::run_step(const Step& step, int64_t device) const {
  if (step.kernel.prepare)
    run_parts(step, step.kernel.prepare, device, 0, step.kernel.prepare_parts);
  run_parts(step, step.kernel.run, device, 0, step.kernel.parts);
}

// One part of what some worker has put up, perhaps this one.
void Worker::take_offered(OfferedParts& offer, int64_t part) const {
  const OfferedParts::Work work = offer.work();
  KernelArgs args = args_of(*work.step, work.device);
  args.shared = work.shared;
  args.part = part;
  try {
    run_part(*work.step, *work.stage, args);
  } catch (...) {
    offer.done();
    throw;
  }
  offer.done();
}

// All parts of a stage, of which others may do some.
void Worker::offer_parts(const Step& step, Stage stage, int64_t device, int64_t parts) {
  if (parts == 1 || step.kernel.cost < kOfferedCost * static_cast<double>(parts))
    return run_parts(step, stage, device, 0, parts);
  OfferedParts& offer = state_.offers.list[static_cast<size_t>(worker_)];
  offer.put_up({&step, &stage, device, memory_.shared}, parts);
  for (int64_t part = offer.take(); part >= 0; part = offer.take()) take_offered(offer, part);
  for (int64_t turn = 0; offer.parts_done() < parts; ++turn) wait_a_little(turn);
}

// Parts of what others have put up, until all devices are through with the segment.
void Worker::help() {
  Offers& offers = state_.offers;
  int64_t turn = 0;
  while (offers.devices_done.load(std::memory_order_acquire) < devices_done_ &&
         !offers.failed.load(std::memory_order_relaxed)) {
    bool any = false;
    for (OfferedParts& offer : offers.list) {
      const int64_t part = offer.take();
      if (part < 0) continue;
      take_offered(offer, part);
      any = true;
    }
    turn = any ? 0 : turn + 1;
    wait_a_little(turn);
  }
}

void Worker::run_segment_on(int64_t device, const Block::Item& item, bool offers) {
  for (int64_t i = item.first; i < item.last; ++i) {
    const Step& step = program_.steps[static_cast<size_t>(i)];
    state_.guard.close(device);
    state_.guard.open(device, step.first_argument, step.operands + step.results);
    const int64_t begin = log_ == nullptr ? 0 : log_->now();
    if (offers && step.kernel.prepare)
      offer_parts(step, step.kernel.prepare, device, step.kernel.prepare_parts);
    if (offers)
      offer_parts(step, step.kernel.run, device, step.kernel.parts);
    else
      run_step(step, device);
    progress();
    if (log_ != nullptr) record(TraceLog::step(i), device, begin);
  }
}

// Between two points where all meet, who is through with its own devices goes on with others', and
// then with parts of what others are at.
// A recorded run shows whose they are.
void Worker::run_segment(const Block::Item& item, const Active& active) {
  const int64_t devices = state_.local.count();
  const bool helps = item.met && log_ == nullptr && pool_.size() > 1 && devices <= Claims::kMost;
  const auto run = [&](int64_t device) {
    if (active[static_cast<size_t>(device)]) run_segment_on(device, item, helps);
  };
  if (!helps) {
    for (const int64_t device : own_) run(device);
    return;
  }
  ++round_;
  devices_done_ += static_cast<uint64_t>(devices);
  Claims& claims = state_.claims[0];
  try {
    for (int64_t d = claims.take(round_, worker_, devices); d >= 0;
         d = claims.take(round_, worker_, devices)) {
      run(state_.local.first + d);
      state_.offers.devices_done.fetch_add(1, std::memory_order_release);
    }
    help();
  } catch (...) {
    state_.offers.failed.store(true, std::memory_order_relaxed);
    throw;
  }
}

// Several workers on one device: their steps may overlap, so what all of them touch is open.
void Worker::open_segment(const Block::Item& item, int64_t device) {
  if constexpr (kGuardBytes == 0) return;
  if (rank_ == 0) {
    state_.guard.close(device);
    for (int64_t i = item.first; i < item.last; ++i) {
      const Step& step = program_.steps[static_cast<size_t>(i)];
      state_.guard.open(device, step.first_argument, step.operands + step.results);
    }
  }
  pool_.barrier(worker_);
}

// The parts of a step among the workers of its device: who is through with its own takes others'.
void Worker::share_parts(const Step& step, Stage stage, int64_t device, int64_t parts) {
  Claims& claims = state_.claims[static_cast<size_t>(device - state_.local.first)];
  if (log_ != nullptr || parts > Claims::kMost)
    return run_parts(step, stage, device, claims.begin(rank_, parts),
                     claims.begin(rank_ + 1, parts));
  ++round_;
  for (int64_t part = claims.take(round_, rank_, parts); part >= 0;
       part = claims.take(round_, rank_, parts))
    run_parts(step, stage, device, part, part + 1);
}

// Several workers on one device; a device that sits out still meets the barriers.
void Worker::run_segment_together(const Block::Item& item, const Active& active) {
  const int64_t device = own_[0];
  const bool runs = active[static_cast<size_t>(device)] != 0;
  open_segment(item, device);
  for (int64_t i = item.first; i < item.last; ++i) {
    const Step& step = program_.steps[static_cast<size_t>(i)];
    const StepSchedule& schedule = state_.schedule.steps[static_cast<size_t>(i)];
    // Recorded steps do not overlap on their device.
    if (schedule.barrier_before || log_ != nullptr) pool_.barrier(worker_);
    const int64_t begin = log_ == nullptr ? 0 : log_->now();
    if (schedule.barrier_between) {
      if (runs) share_parts(step, step.kernel.prepare, device, step.kernel.prepare_parts);
      pool_.barrier(worker_);
    }
    if (!runs) continue;
    if (schedule.split) {
      share_parts(step, step.kernel.run, device, step.kernel.parts);
    } else if (rank_ == 0) {
      run_step(step, device);
    }
    progress();
    if (records()) record(TraceLog::step(i), device, begin);
  }
}

// All workers together, before any device begins the segment: parts of what its steps lay out once
// for several devices.
void Worker::run_common_stages(const Block::Item& item) {
  meet_after(Since::own_devices);  // nobody reads what the last segment's have written
  open_shared(item);
  Claims& claims = state_.claims[0];
  for (int64_t i = item.first; i < item.last; ++i) {
    const Step& step = program_.steps[static_cast<size_t>(i)];
    const int64_t parts = step.kernel.common.parts, holders = std::ssize(step.common.holders);
    if (holders == 0) continue;
    ++round_;
    for (int64_t piece = claims.take(round_, worker_, holders * parts); piece >= 0;
         piece = claims.take(round_, worker_, holders * parts))
      run_parts(step, step.kernel.common.prepare,
                step.common.holders[static_cast<size_t>(piece / parts)], piece % parts,
                piece % parts + 1);
  }
  meet();
}

void Worker::open_shared(const Block::Item& item) {
  if constexpr (kGuardBytes == 0) return;
  for (int64_t d = state_.local.first; worker_ == 0 && d < state_.local.last; ++d) {
    state_.guard.close(d);
    for (int64_t i = item.first; i < item.last; ++i) {
      const Step& step = program_.steps[static_cast<size_t>(i)];
      state_.guard.open(d, step.first_argument, step.operands + step.results);
    }
  }
  pool_.barrier(worker_);
}

// All workers together, each step on the devices that hold its results, part by part.
void Worker::run_shared(const Block::Item& item) {
  open_shared(item);
  Claims& claims = state_.claims[0];
  for (int64_t i = item.first; i < item.last; ++i) {
    const Step& step = program_.steps[static_cast<size_t>(i)];
    if (state_.shared_waits[static_cast<size_t>(i)] != 0 || log_ != nullptr) pool_.barrier(worker_);
    const int64_t begin = log_ == nullptr ? 0 : log_->now();
    const auto devices = std::ssize(step.devices);
    // A kernel that prepares what its parts share has one worker.
    const int64_t parts =
        step.kernel.prepare || devices * step.kernel.parts > Claims::kMost ? 1 : step.kernel.parts;
    ++round_;
    for (int64_t piece = claims.take(round_, worker_, devices * parts); piece >= 0;
         piece = claims.take(round_, worker_, devices * parts)) {
      const int64_t device = step.devices[static_cast<size_t>(piece / parts)];
      if (parts == 1)
        run_step(step, device);
      else
        run_parts(step, step.kernel.run, device, piece % parts, piece % parts + 1);
    }
    if (log_ == nullptr) continue;
    pool_.barrier(worker_);
    for (const int64_t device : own_)
      if (std::binary_search(step.devices.begin(), step.devices.end(), device))
        record(TraceLog::step(i), device, begin);
  }
}

void Worker::open_collective(const CollectiveStep& step) {
  if constexpr (kGuardBytes == 0) return;
  for (int64_t d = state_.local.first; worker_ == 0 && d < state_.local.last; ++d) {
    state_.guard.close(d);
    state_.guard.open(d, step.first_argument, step.operands + step.results);
  }
  pool_.barrier(worker_);
}

// Under AddressSanitizer nothing may touch what no step has open: there all is done at the end.
void Worker::start_collective(const CollectiveStep& step, const Active& active) {
  if (kGuardBytes > 0 || state_.remote == nullptr) return;
  meet_after(Since::own_devices);  // all operands are there
  if (worker_ != 0) return;
  const CollectiveArgs args{&state_.tables, &active, program_.options.num_devices, state_.local};
  at_node(*step.node, [&] {
    check_active(step, args);
    state_.remote->begin(step, active, state_.tables);
  });
}

// What has begun goes on between the steps of this worker.
void Worker::progress() {
  if (worker_ == 0 && state_.remote != nullptr) state_.remote->progress();
}

void Worker::run_collective(const CollectiveStep& step, const Active& active) {
  CollectiveArgs args{&state_.tables,
                      &active,
                      program_.options.num_devices,
                      state_.local,
                      &state_.collective_claims,
                      ++collective_round_,
                      state_.shares};
  meet_after(Since::own_devices);
  const int64_t begin = log_ == nullptr ? 0 : log_->now();
  open_collective(step);
  at_node(*step.node, [&] {
    check_active(step, args);
    if (state_.remote != nullptr) {
      args.done = &state_.remote->done(step);
      if (worker_ == 0) {
        if (kGuardBytes > 0 || !step.is_split) state_.remote->begin(step, active, state_.tables);
        state_.remote->finish(step);
      }
      pool_.barrier(worker_);
    }
    gspmd::run_collective(step, args, worker_);
  });
  if (worker_ == 0) {
    ++state_.counters.collectives;
    if (step.is_split) ++state_.counters.overlapped;
    state_.counters.bytes_received += bytes_received(step, args);
    if (state_.remote != nullptr)
      state_.counters.bytes_across += state_.remote->bytes_across(step, active);
  }
  done_ = Since::exchange;
  if (log_ == nullptr) return;
  meet();
  for (const int64_t device : own_) {
    if (!records() || !active[static_cast<size_t>(device)]) continue;
    const int64_t since = since_[static_cast<size_t>(device)];
    record(log_->collective(&step - program_.collectives.data()), device, since, begin - since);
  }
}

Worker::Active Worker::members(const Active& before, bool lockstep, bool across) const {
  if (across || (lockstep && state_.remote == nullptr)) return before;
  Active active(before.size(), 0);
  const auto take = [&](int64_t device) {
    active[static_cast<size_t>(device)] = before[static_cast<size_t>(device)];
  };
  if (lockstep)
    for (int64_t d = state_.local.first; d < state_.local.last; ++d) take(d);
  else
    for (const int64_t device : own_) take(device);
  return active;
}

template <class F>
void Worker::tell(const Node& node, const Active& active, F&& value) {
  if (worker_ != 0) return;
  for (int64_t d = state_.local.first; d < state_.local.last; ++d)
    if (active[static_cast<size_t>(d)]) state_.told[static_cast<size_t>(d)] = value(d);
  at_node(node, [&] { state_.remote->share(state_.told, node); });
}

bool Worker::predicate(const LoopStep& loop, int64_t device) const {
  const std::byte* value =
      state_.tables[static_cast<size_t>(device)][static_cast<size_t>(loop.predicate_argument)];
  return *value != std::byte{0};
}

// Takes the devices out whose predicate is false. Whether any is left.
bool Worker::goes_on(const LoopStep& loop, bool across, int64_t iteration, Active& active) {
  const bool asks = across && !loop.trips;
  if (asks) {
    tell(*loop.node, active, [&](int64_t d) { return predicate(loop, d) ? 1 : 0; });
    pool_.barrier(worker_);
  }
  bool any = false;
  for (size_t d = 0; d < active.size(); ++d) {
    if (!active[d]) continue;
    const auto device = static_cast<int64_t>(d);
    if (state_.local.contains(device))
      active[d] = predicate(loop, device);
    else
      active[d] = asks ? state_.told[d] != 0 : iteration < *loop.trips;
    any |= active[d] != 0;
  }
  return any;
}

// Devices whose predicate is false leave the loop. Without a collective inside, each worker goes
// through it alone with its own devices; else all keep in step, those of other processes too.
void Worker::run_loop(const LoopStep& loop, const Active& before) {
  const bool lockstep = loop.lockstep || teams();
  const bool across = loop.lockstep && state_.remote != nullptr;
  Active active = members(before, lockstep, across);
  LoopGuard guard(loop.name, loop.repeatable, loop.trips);
  int64_t devices = 0;  // that were in the last iteration
  for (int64_t iteration = 0;; ++iteration) {
    run_block(loop.condition, active);
    if (lockstep) meet_after(Since::own_devices);
    const bool any = goes_on(loop, across, iteration, active);
    const auto still = std::count(active.begin(), active.end(), 1);
    if (still != devices) guard.restart();
    devices = still;
    // In step, one worker watches, while the others wait; the pool ends them when it throws.
    if (any && (!lockstep || worker_ == 0))
      at_node(*loop.node, [&] {
        if (guard.begin_iteration()) watch(loop, across, active, guard);
      });
    if (lockstep) meet();  // all have read the predicates
    if (!any) return;
    run_block(loop.body, active);
  }
}

void Worker::watch(const LoopStep& loop, bool across, const Active& active,
                   LoopGuard& guard) const {
  std::vector<std::span<const std::byte>> values;
  for (size_t d = 0; d < active.size(); ++d) {
    if (!active[d] || !state_.local.contains(static_cast<int64_t>(d))) continue;
    std::byte* const* entry = state_.tables[d].data() + loop.first_carried;
    for (const int64_t bytes : loop.carried_bytes)
      values.emplace_back(*entry++, static_cast<size_t>(bytes));
  }
  if (!across || loop.carried_bytes.empty()) return guard.carried(values);
  const auto digests = state_.remote->digests(values, *loop.node);
  guard.carried(std::vector<std::span<const std::byte>>(digests.begin(), digests.end()));
}

size_t Worker::chosen(const BranchStep& branch, int64_t device) const {
  const std::byte* value =
      state_.tables[static_cast<size_t>(device)][static_cast<size_t>(branch.selector_argument)];
  if (branch.is_pred) return *value != std::byte{0} ? 0 : 1;
  int32_t index = 0;
  std::memcpy(&index, value, sizeof(index));
  const auto last = static_cast<int32_t>(branch.blocks.size()) - 1;
  return static_cast<size_t>(index < 0 || index > last ? last : index);
}

// As run_loop: alone with the own devices where no collective is inside. The devices of one
// branch after those of another.
void Worker::run_branch(const BranchStep& branch, const Active& before) {
  const bool lockstep = branch.lockstep || teams();
  const bool across = branch.lockstep && state_.remote != nullptr;
  const Active all = members(before, lockstep, across);
  std::vector<Active> active(branch.blocks.size(), Active(before.size(), 0));
  if (lockstep) meet();  // all selectors are there
  if (across) {
    tell(*branch.node, all, [&](int64_t d) { return static_cast<int32_t>(chosen(branch, d)); });
    pool_.barrier(worker_);
  }
  for (size_t d = 0; d < all.size(); ++d) {
    if (!all[d]) continue;
    const auto device = static_cast<int64_t>(d);
    const bool here = state_.local.contains(device);
    active[here ? chosen(branch, device) : static_cast<size_t>(state_.told[d])][d] = 1;
  }
  if (lockstep) meet();  // all have read the selectors
  for (size_t i = 0; i < active.size(); ++i) {
    if (std::find(active[i].begin(), active[i].end(), 1) != active[i].end())
      run_block(branch.blocks[i], active[i]);
  }
}

}  // namespace gspmd
