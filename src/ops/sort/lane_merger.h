#pragma once

#include <array>
#include <vector>

#include "ops/common/scalar_program.h"

namespace gspmd {

// Elements of one operand of a sort, a step in bytes apart.
struct MergeColumn {
  const std::byte* first = nullptr;
  int64_t step = 0;
  int64_t size = 0;  // of an element, in bytes
};

// The order in which the bottom-up merge sort of evaluate_sort puts elements, decision for
// decision, also where the comparator is no order. Many merges go on side by side, so that their
// comparisons are one run of a scalar program; few compare pairs beside those that count.
class LaneMerger {
 public:
  // The comparator and `call` have to outlive it.
  LaneMerger(const Computation& comparator, const CallComputation& call);
  // order[i]: which element comes at place i, for as many elements from `first` on as `order` has.
  void order(const std::vector<MergeColumn>& columns, std::vector<uint32_t>& order,
             uint32_t first = 0);
  // The same of all of a line, whose blocks of `width` elements are in order.
  void merge(const std::vector<MergeColumn>& columns, std::vector<uint32_t>& order, size_t width);
  // Elements of a block that is put in order by itself, of which a line of `size` has `most` at
  // most.
  static int64_t block_of(int64_t size, int64_t most);

 private:
  static constexpr size_t kLanes = 64;
  // A merge of the elements from head[1] to end[1] and those behind, from head[0] to end[0]; or the
  // insertion of one element into what is before it.
  struct Lane {
    std::array<size_t, 2> head{}, end{};
    size_t out = 0;
    bool busy = false;
  };

  void insert_runs(std::vector<uint32_t>& order);
  void merge_runs(const std::vector<uint32_t>& from, std::vector<uint32_t>& to, size_t width);
  void merge_lanes(const std::vector<uint32_t>& from, std::vector<uint32_t>& to, size_t count);
  void merge_blocks(const std::vector<uint32_t>& from, std::vector<uint32_t>& to, size_t count);
  static void take_block(Lane& lane, const std::byte* less, size_t most,
                         const std::vector<uint32_t>& from, std::vector<uint32_t>& to);
  static void end_merge(Lane& lane, size_t side, const std::vector<uint32_t>& from,
                        std::vector<uint32_t>& to);
  void fetch_taken(size_t count);
  void fetch(size_t count, size_t side);
  void fetch_blocks(const std::vector<uint32_t>& from, size_t count, size_t most);

  ScalarProgram compare_;
  std::vector<MergeColumn> columns_;
  std::array<Lane, kLanes> lanes_;
  // The element that a lane compares next, and on which side: 0 is the left one.
  std::array<uint32_t, kLanes> element_{};
  std::array<uint8_t, kLanes> side_{};
};

}  // namespace gspmd
