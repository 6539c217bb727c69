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

// The order in which the bottom-up merge sort of evaluate_sort puts elements, comparison for
// comparison, also where the comparator is no order. Many merges go on side by side, so that their
// comparisons are one run of a scalar program.
class LaneMerger {
 public:
  // The comparator and `call` have to outlive it.
  LaneMerger(const Computation& comparator, const CallComputation& call);
  // order[i]: which element comes at place i, for as many elements as `order` has.
  void order(const std::vector<MergeColumn>& columns, std::vector<uint32_t>& order);

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
  void fetch(size_t count);

  ScalarProgram compare_;
  std::vector<MergeColumn> columns_;
  std::array<Lane, kLanes> lanes_;
  // The element that a lane compares next, and on which side: 0 is the left one.
  std::array<uint32_t, kLanes> element_{};
  std::array<uint8_t, kLanes> side_{};
};

}  // namespace gspmd
