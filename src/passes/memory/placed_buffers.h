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

  // Buffers by offset, and what they have in common.
  struct Chunk {
    std::vector<Placed> buffers;
    int64_t last_first = 0, first_last = 0;  // positions at which all of them live, if in order
    int64_t end = 0;                         // the largest
    bool has_gaps = false;                   // maybe, between them when all of them live
    void sum_up();
    void count_in(const Placed& buffer);
    // Whether all of them live at some of the positions, without a gap: all but the first one is
    // passed at once.
    bool is_solid(int64_t first, int64_t last) const {
      return !has_gaps && last_first <= last && first <= first_last;
    }
  };

  static bool is_long(int64_t first, int64_t last) {
    return last / kSpan - first / kSpan >= kMostBuckets;
  }
  bool has_most(int64_t first, int64_t last) const;
  static void insert(std::vector<Chunk>& chunks, const Placed& buffer);

  // Those that live shortly, in each span they live in, by offset.
  std::vector<Placed> near_, merged_;  // of one search
  std::vector<std::vector<Placed>> buckets_;
  // By offset, in chunks so that one more moves few.
  std::vector<Chunk> all_, long_;
};

}  // namespace gspmd
