#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace gspmd {

// Pieces of work that some workers share while they do it. Each begins with a part of its own, from
// the front, so that it finds in its caches what it left there; who is through takes from the end
// of others' parts. Which piece who does leaves no trace in results: pieces are independent.
//
// Rounds follow each other without a barrier, and need no preparing: who comes first to a round
// puts up its pieces. Nobody leaves a round before all of its pieces are taken, so a part that is
// of a later round than a worker's own has nothing left for it.
class Claims {
 public:
  static constexpr int64_t kMost = 65535;  // pieces of a round

  explicit Claims(int64_t workers = 1) : parts_(static_cast<size_t>(workers)) {}
  // For runs that follow ones that ended anyhow. The first round is 1.
  void reset() {
    for (Part& part : parts_) part.word.store(0, std::memory_order_relaxed);
  }

  int64_t workers() const { return std::ssize(parts_); }
  // Worker w's own pieces of n are begin(w, n) to begin(w + 1, n).
  int64_t begin(int64_t worker, int64_t n) const {
    const auto workers = static_cast<int64_t>(parts_.size());
    return (worker * n + workers - 1) / workers;
  }
  // The next of n pieces of a round for a worker; -1: all are taken.
  int64_t take(uint32_t round, int64_t worker, int64_t n) {
    const auto workers = static_cast<int64_t>(parts_.size());
    for (int64_t i = 0; i < workers; ++i) {
      const int64_t of = worker + i < workers ? worker + i : worker + i - workers;
      std::atomic<uint64_t>& word = parts_[static_cast<size_t>(of)].word;
      uint64_t seen = word.load(std::memory_order_relaxed);
      while (true) {
        const auto seen_round = static_cast<uint32_t>(seen >> 32);
        const bool is_new = seen_round != round;
        if (is_new && static_cast<int32_t>(seen_round - round) > 0) return -1;
        auto first = is_new ? begin(of, n) : static_cast<int64_t>(seen >> 16 & kMost);
        auto last = is_new ? begin(of + 1, n) : static_cast<int64_t>(seen & kMost);
        if (first == last) break;
        const int64_t taken = i == 0 ? first++ : --last;
        const uint64_t next = uint64_t{round} << 32 | static_cast<uint64_t>(first) << 16 |
                              static_cast<uint64_t>(last);
        if (word.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return taken;
      }
    }
    return -1;
  }

 private:
  struct alignas(64) Part {
    std::atomic<uint64_t> word{0};  // round, first, last: 32, 16 and 16 bits
  };
  std::vector<Part> parts_;
};

}  // namespace gspmd
