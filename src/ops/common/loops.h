#pragma once

#include <array>
#include <cstdint>

#include "gspmd/base/array.h"

namespace gspmd {

// Calls `body(offsets)` for every index of `dims` in row-major order; offsets[n] starts at
// `base[n]` and moves by strides[n][d] per step along dim d. Strides may be 0 or negative.
template <size_t N, class Body>
void for_each_offset(const Dims& dims, const std::array<Dims, N>& strides,
                     std::array<int64_t, N> base, Body&& body) {
  for (const int64_t d : dims)
    if (d == 0) return;
  if (dims.empty()) {
    body(base);
    return;
  }
  const size_t last = dims.size() - 1;
  Dims index(dims.size(), 0);
  while (true) {
    std::array<int64_t, N> inner = base;
    for (int64_t i = 0; i < dims[last]; ++i) {
      body(inner);
      for (size_t n = 0; n < N; ++n) inner[n] += strides[n][last];
    }
    size_t d = last;
    while (true) {
      if (d == 0) return;
      --d;
      for (size_t n = 0; n < N; ++n) base[n] += strides[n][d];
      if (++index[d] < dims[d]) break;
      for (size_t n = 0; n < N; ++n) base[n] -= strides[n][d] * dims[d];
      index[d] = 0;
    }
  }
}

// A strided view of an array: element (i0, i1, ...) is at base + sum of i * stride.
struct StridedView {
  const Array& array;
  Dims strides;
  int64_t base = 0;
};

// to[i] = from[i] for every index of `dims`; any element type of equal size.
void copy_elements(const Dims& dims, const StridedView& to, const StridedView& from);

// All of an array.
StridedView whole(const Array& array);
// The arrays one behind the other along a dim, as `result`.
Array concatenated(const Array& result, const std::vector<Array>& arrays, size_t dim);

// Fills an array with one scalar of its type.
void fill_elements(const Array& array, const Array& scalar);

// An index: an element of an array of any integer type; unsigned values beyond int64 saturate.
int64_t index_at(const Array& index, int64_t element);

// The start of a slice kept inside: 0 <= start <= dim - size. Reads any integer scalar (pred
// refused by infer); unsigned values beyond int64 clamp to the end.
int64_t clamped_start(const Array& index, int64_t element, int64_t dim, int64_t size);

}  // namespace gspmd
