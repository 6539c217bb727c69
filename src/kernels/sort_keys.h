#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gspmd/base/dtype.h"

namespace gspmd {

// n elements of one type, a step in bytes apart, and how they are ordered.
struct KeyElements {
  const std::byte* first = nullptr;
  int64_t step = 0, count = 0;
  bool descending = false;
  bool total_order = false;  // floats: by total order, else NaN has no order and zeros are equal
};

// Writes keys that compare as unsigned integers the way the elements compare; false at an element
// that has no order.
using KeyFunction = bool (*)(const KeyElements& elements, uint32_t* keys);
// Of types of at most 4 bytes; nullptr for others, and for those without an order.
KeyFunction key_function(DType dtype);

// The index of the first of n keys that is below `bound`; n: none is.
int64_t first_below(const uint32_t* keys, int64_t n, uint32_t bound);

// Sorts keys.
void radix_sort(std::vector<uint32_t>& keys, std::vector<uint32_t>& other);
// Sorts by the upper halves, stably: the lower ones are payload. `other` is room.
void radix_sort_upper(std::vector<uint64_t>& items, std::vector<uint64_t>& other);

// Fills `out` from the k least of the keys of a line, as (key, index) in order, of equal ones the
// first. Keys come in chunks.
class LeastKeys {
 public:
  explicit LeastKeys(int64_t k) : k_(static_cast<size_t>(k)) {}
  void add(const uint32_t* keys, int64_t count, int64_t first_index);
  // (key << 32) + index, in order; empties.
  void take(std::vector<uint64_t>& out);

 private:
  size_t k_;
  std::vector<uint64_t> heap_;  // the worst on top
};

}  // namespace gspmd
