#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gspmd {

// Buffers that have a place in the arena. Most live shortly: these are found by when they do, so
// that finding a place does not look at all there are.
class PlacedBuffers {
 public:
  struct Placed {
    int64_t first = 0, last = 0;  // positions at which it lives
    int64_t offset = 0, end = 0;  // its bytes
  };
  explicit PlacedBuffers(int64_t positions);
  void add(const Placed& buffer);
  // The tightest gap of so many bytes below or between those that live at some of the positions;
  // behind them where there is none.
  int64_t best_gap(int64_t first, int64_t last, int64_t bytes);

 private:
  static constexpr int64_t kSpan = 64;         // positions of a bucket
  static constexpr int64_t kMostBuckets = 16;  // of one that lives shortly
  static constexpr size_t kChunk = 1024;

  static bool is_long(int64_t first, int64_t last) {
    return last / kSpan - first / kSpan >= kMostBuckets;
  }
  static void insert(std::vector<std::vector<Placed>>& chunks, const Placed& buffer);

  // Those that live shortly, in each span they live in, by offset.
  std::vector<std::vector<Placed>> buckets_;
  // By offset, in chunks so that one more moves few.
  std::vector<std::vector<Placed>> all_, long_;
};

}  // namespace gspmd
