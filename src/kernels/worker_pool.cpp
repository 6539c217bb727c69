#include "gspmd/kernels/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gspmd/base/error.h"

#ifdef GSPMD_HAS_TBB
#include <tbb/task_arena.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gspmd {
namespace {

constexpr auto kSpin = std::chrono::microseconds(80);  // before sleeping or leaving

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Polls `ready`: a while with pauses, then giving the core away between looks, so that a loaded
// machine makes progress. `patient` false: few pauses, for more workers than cores.
template <class Ready>
void spin_until(bool patient, Ready&& ready) {
  for (int i = patient ? 2000 : 20; i > 0; --i) {
    if (ready()) return;
    pause();
  }
  while (!ready()) std::this_thread::yield();
}

template <class Ready>
bool spin_for(std::chrono::microseconds time, bool patient, Ready&& ready) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (int64_t i = 0;; ++i) {
    if (ready()) return true;
    if (i % 32 == 31 && std::chrono::steady_clock::now() > end) return false;
    if (patient) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

struct Abandoned {};  // thrown out of a barrier that another worker can no longer reach

// The workers beside the caller. A slot is served by a thread of ours for good, or (oneTBB) by a
// task that stays for a while after each run. Every slot has a real thread of its own while a run
// lasts, so a barrier inside cannot starve: a task that does not arrive in time is replaced by a
// thread.
class Crew : public std::enable_shared_from_this<Crew> {
 public:
  Crew(int size, [[maybe_unused]] PoolKind kind) : slots_(static_cast<size_t>(size)) {
    patient_ = static_cast<unsigned>(size) <= std::thread::hardware_concurrency();
    int tasks = 1;  // slots that oneTBB can serve at once, the caller's included
#ifdef GSPMD_HAS_TBB
    tbb_ = kind == PoolKind::tbb;
    if (tbb_) {
      tasks = std::min(size, tbb::this_task_arena::max_concurrency());
      arena_.initialize(tasks);
    }
#endif
    for (int i = tasks; i < size; ++i) start_thread(i);
  }

  int size() const { return static_cast<int>(slots_.size()); }

  void run(const std::function<void(int)>& f) {
    if (running_on_this_thread()) internal_error("worker pool: run() inside run()");
    const std::lock_guard lock(run_mutex_);
    is_running_ = true;
    task_ = &f;
    left_before_ = left_.load(std::memory_order_relaxed);
    const uint64_t all_left = left_before_ + slots_.size();
    generation_.fetch_add(1);
    if (size() > 1) {
      generation_.notify_all();
      try {
        fill_slots();
      } catch (...) {
        give_up();
        throw;
      }
    }
    work(0);
    spin_until(patient_, [&] { return left_.load(std::memory_order_acquire) == all_left; });
    is_running_ = false;
    rethrow();
  }

  void barrier() {
    if (size() == 1) return;
    const uint64_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    bool abandoned = false;
    spin_until(patient_, [&] {
      // A worker leaves after it passed all its barriers, so `left_` is read before the phase.
      abandoned = left_.load(std::memory_order_acquire) > left_before_;
      if (phase_.load(std::memory_order_acquire) != phase) {
        abandoned = false;
        return true;
      }
      return abandoned;
    });
    if (abandoned) throw Abandoned{};
  }

  void stop() {
    stop_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
    for (Slot& slot : slots_) {
      if (slot.thread.joinable()) slot.thread.join();
    }
  }

 private:
  // Crews that tasks of oneTBB will serve or serve, once per task: kept until these are through,
  // and seen to be kept by leak checkers, which do not look into oneTBB's memory.
  class TasksUnderWay {
   public:
    void add(std::shared_ptr<Crew> crew) {
      const std::lock_guard lock(mutex_);
      crews_.push_back(std::move(crew));
    }
    void remove(const Crew* crew) {
      std::shared_ptr<Crew> last;  // ends after the lock
      const std::lock_guard lock(mutex_);
      const auto at = std::find_if(crews_.begin(), crews_.end(),
                                   [&](const auto& kept) { return kept.get() == crew; });
      last = std::move(*at);
      crews_.erase(at);
    }

   private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<Crew>> crews_;
  };
  static TasksUnderWay& tasks_under_way() {
    static TasksUnderWay& tasks = *new TasksUnderWay;  // tasks may be left when the process ends
    return tasks;
  }

  // Of a slot, in the lowest two bits; above them, of a vacant one, the run that it last served, so
  // that a caller who comes late to look does not have it served twice. Claimed: a thread is being
  // made.
  enum State : uint64_t { vacant, invited, claimed, present };
  static constexpr uint64_t kStates = 4;
  struct alignas(64) Slot {
    std::atomic<uint64_t> state{vacant};
    std::exception_ptr error;
    std::thread thread;
  };

  static bool& running_on_this_thread() {
    static thread_local bool running = false;
    return running;
  }

  void start_thread(int index) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    const uint64_t seen = generation_.load() - (is_running_ ? 1 : 0);
    slot.thread = std::thread([this, index, seen] { serve_forever(index, seen); });
    slot.state.store(present);
  }

  void serve_forever(int index, uint64_t seen) {
    while (true) {
      const auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
      if (!spin_for(kSpin, patient_, changed)) generation_.wait(seen, std::memory_order_acquire);
      if (!changed()) continue;
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load()) return;
      work(index);
    }
  }

  // Body of a oneTBB task that was invited into a slot during the current run.
  void serve_for_a_while(int index) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    uint64_t expected = invited;
    if (!slot.state.compare_exchange_strong(expected, present)) return;  // came too late
    uint64_t seen = generation_.load() - 1;
    while (true) {
      const auto changed = [&] { return generation_.load() != seen; };
      while (!spin_for(kSpin, patient_, changed)) {
        expected = seen * kStates + vacant;
        slot.state.store(expected);
        if (!changed()) return;  // a run that starts now finds the slot vacant and invites again
        if (!slot.state.compare_exchange_strong(expected, present)) return;
      }
      seen = generation_.load();
      if (stop_.load()) {
        slot.state.store(vacant);
        return;
      }
      work(index);
    }
  }

  void fill_slots() {
#ifdef GSPMD_HAS_TBB
    constexpr auto kArrival = std::chrono::microseconds(300);  // for an invited task to arrive
    if (!tbb_) return;
    const uint64_t run = generation_.load();
    bool any = false;
    for (int i = 1; i < size(); ++i) {
      std::atomic<uint64_t>& state = slots_[static_cast<size_t>(i)].state;
      uint64_t seen = state.load();
      if (seen % kStates != vacant || seen / kStates == run ||
          !state.compare_exchange_strong(seen, invited))
        continue;
      any = true;
      tasks_under_way().add(shared_from_this());
      arena_.enqueue([this, i] {
        serve_for_a_while(i);
        tasks_under_way().remove(this);
      });
    }
    if (!any) return;
    const auto all_present = [&] {
      for (size_t i = 1; i < slots_.size(); ++i) {
        if (slots_[i].state.load() == invited) return false;
      }
      return true;
    };
    if (spin_for(kArrival, patient_, all_present)) return;
    for (int i = 1; i < size(); ++i) {
      uint64_t expected = invited;
      std::atomic<uint64_t>& state = slots_[static_cast<size_t>(i)].state;
      if (!state.compare_exchange_strong(expected, claimed)) continue;
      try {
        start_thread(i);
      } catch (...) {
        state.store(invited);
        throw;
      }
    }
#endif
  }

  // No thread could be had for some slot: the others must not wait for it, nor for the caller.
  void give_up() {
    uint64_t missing = 1;
    for (size_t i = 1; i < slots_.size(); ++i) {
      uint64_t expected = invited;
      if (slots_[i].state.compare_exchange_strong(expected, vacant)) ++missing;
    }
    const uint64_t all_left = left_before_ + slots_.size();
    left_.fetch_add(missing);
    spin_until(patient_, [&] { return left_.load(std::memory_order_acquire) == all_left; });
    is_running_ = false;
    rethrow();
  }

  void work(int index) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    if (slot.error != nullptr) slot.error = nullptr;
    running_on_this_thread() = true;
    try {
      (*task_)(index);
    } catch (const Abandoned&) {
      abandoned_.store(true, std::memory_order_relaxed);
    } catch (...) {
      slot.error = std::current_exception();
    }
    running_on_this_thread() = false;
    left_.fetch_add(1, std::memory_order_acq_rel);
  }

  void rethrow() {
    const bool abandoned = abandoned_.load() && abandoned_.exchange(false);
    if (abandoned) arrived_.store(0);  // who left a barrier had come to it
    for (Slot& slot : slots_) {
      if (slot.error == nullptr) continue;
      std::exception_ptr error = std::move(slot.error);
      for (Slot& other : slots_) other.error = nullptr;
      std::rethrow_exception(error);
    }
    if (abandoned) internal_error("worker pool: a worker left while others wait at a barrier");
  }

  // A line that another core wrote takes hundreds of nanoseconds, so what is written in every run
  // is kept apart from what is only read: two lines go to and fro in a run, one at its beginning
  // and one at its end.
  std::vector<Slot> slots_;
  bool patient_ = true;
#ifdef GSPMD_HAS_TBB
  bool tbb_ = false;
  tbb::task_arena arena_{tbb::task_arena::automatic};
#endif
  std::atomic<bool> stop_{false};
  std::atomic<bool> abandoned_{false};
  alignas(64) std::mutex run_mutex_;  // of the callers, as is the next
  bool is_running_ = false;
  alignas(64) std::atomic<uint64_t> generation_{0};
  const std::function<void(int)>* task_ = nullptr;  // of the last run
  uint64_t left_before_ = 0;                        // left_ when that run began
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint64_t> phase_{0};
  // Grows by one for each worker and run: what nobody resets need not be fetched from where it was
  // last written.
  alignas(64) std::atomic<uint64_t> left_{0};
};

class CrewPool final : public WorkerPool {
 public:
  CrewPool(int size, PoolKind kind) : crew_(std::make_shared<Crew>(size, kind)) {}
  ~CrewPool() override { crew_->stop(); }
  int size() const override { return crew_->size(); }
  void run(const std::function<void(int)>& f) override { crew_->run(f); }
  void barrier(int) override { crew_->barrier(); }

 private:
  std::shared_ptr<Crew> crew_;  // tasks that come late keep it, too
};

}  // namespace

std::shared_ptr<WorkerPool> make_worker_pool(int workers, PoolKind kind) {
  if (workers < 0 || workers > 1024) {
    user_error("make_worker_pool: {} workers; give 0 (the machine's cores) or 1 to 1024", workers);
  }
  if (workers == 0) workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
#ifdef GSPMD_HAS_TBB
  if (kind == PoolKind::automatic) kind = PoolKind::tbb;
#else
  if (kind == PoolKind::tbb) {
    user_error("make_worker_pool: this build has no oneTBB; use PoolKind::threads");
  }
  kind = PoolKind::threads;
#endif
  return std::make_shared<CrewPool>(workers, kind);
}

}  // namespace gspmd
