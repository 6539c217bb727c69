#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

struct Step;

// Parts of a step that a worker does one after the other, each of which another one may take that
// has nothing left to do itself. Which part who does leaves no trace in results.
class alignas(64) OfferedParts {
 public:
  struct Work {
    const Step* step = nullptr;
    const std::function<void(const KernelArgs&)>* stage = nullptr;  // of its kernel
    int64_t device = 0;
    std::byte* shared = nullptr;  // as KernelArgs says
  };

  // By its worker, when all parts of the last work are done.
  void put_up(const Work& work, int64_t parts) {
    work_ = work;
    done_.store(0, std::memory_order_relaxed);
    word_.store(static_cast<uint64_t>(parts) << 32, std::memory_order_release);
  }
  // The next part; -1: all are taken.
  int64_t take() {
    uint64_t seen = word_.load(std::memory_order_acquire);
    while (true) {
      const auto next = static_cast<int64_t>(seen & 0xffffffff);
      if (next == static_cast<int64_t>(seen >> 32)) return -1;
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return next;
    }
  }
  // What a part that was taken is of, until it is done.
  const Work& work() const { return work_; }
  void done() { done_.fetch_add(1, std::memory_order_release); }
  int64_t parts_done() const { return done_.load(std::memory_order_acquire); }
  void withdraw() { word_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> word_{0};  // parts, next part: 32 bits each
  std::atomic<int64_t> done_{0};
  Work work_;
};

// What the workers offer each other in segments between two points where all meet.
struct Offers {
  explicit Offers(int workers) : list(static_cast<size_t>(workers)) {}
  // For runs that follow ones that ended anyhow.
  void reset() {
    for (OfferedParts& offer : list) offer.withdraw();
    devices_done.store(0, std::memory_order_relaxed);
    failed.store(false, std::memory_order_relaxed);
  }

  std::vector<OfferedParts> list;                     // by worker
  alignas(64) std::atomic<uint64_t> devices_done{0};  // in all segments so far
  std::atomic<bool> failed{false};                    // a worker has left a segment by an exception
};

}  // namespace gspmd
