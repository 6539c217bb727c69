#pragma once

#include <algorithm>
#include <cstdint>

#include "gspmd/kernels/indexed_slices.h"

namespace gspmd {

// Calls body(dense offset, origin, offset of the index vector) for slices [first, last).
template <class Body>
void for_each_slice(const IndexedSlices& s, int64_t first, int64_t last, Body&& body) {
  const size_t rank = s.counts.size();
  Dims index(rank, 0);
  int64_t rest = first, dense = 0, place = 0, origin = 0;
  const auto move = [&](size_t d, int64_t steps) {
    dense += steps * s.batch[d];
    place += steps * s.batch_indices[d];
    origin += steps * s.batch_origin[d];
  };
  for (size_t d = rank; d-- > 0; rest /= s.counts[d]) {
    index[d] = rest % s.counts[d];
    move(d, index[d]);
  }
  for (int64_t slice = first; slice < last; ++slice) {
    body(dense, origin, place);
    for (size_t d = rank; d-- > 0;) {
      move(d, 1);
      if (++index[d] < s.counts[d]) break;
      move(d, -s.counts[d]);
      index[d] = 0;
    }
  }
}

// Where a slice begins in the sliced array: starts are clamped.
inline int64_t clamped_origin(const IndexedSlices& s, IndexReader reader, const std::byte* indices,
                              int64_t origin, int64_t place) {
  for (const IndexedSlices::Component& c : s.components)
    origin += std::clamp<int64_t>(reader(indices, place + c.element), 0, c.last) * c.stride;
  return origin;
}

}  // namespace gspmd
