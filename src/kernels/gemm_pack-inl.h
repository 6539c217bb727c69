// Operands of products in strips, as wide as a block of registers, for the target that is compiled.
// Included per target (see foreach_target.h), so without a guard that lasts.
#if defined(GSPMD_KERNELS_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GSPMD_KERNELS_GEMM_PACK_INL_H_
#undef GSPMD_KERNELS_GEMM_PACK_INL_H_
#else
#define GSPMD_KERNELS_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/gemm_product.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using LaneTag = hn::ScalableTag<T>;
using Tag = LaneTag<float>;
using Vector = hn::Vec<Tag>;

// A block of registers: rows of a, and vectors of each row: 24 of 32 registers, or 12 of 16. Four
// neighbouring vectors, as rows of c may be a power of two apart, and few lines then fit beside
// each other into a cache.
constexpr int64_t kStripRows = 6;
constexpr int64_t kStripVectors = HWY_MAX_BYTES == 64 ? 4 : 2;

// Rows of memory from what is packed to what is fetched meanwhile.
constexpr int64_t kAhead = 8;
constexpr int64_t kLinesAhead = 4;  // and lines along k

// Columns of b in a strip.
template <class T = float>
int64_t strip_columns() {
  return kStripVectors * static_cast<int64_t>(hn::Lanes(LaneTag<T>()));
}

// Elements from one strip to the next. The lines between them keep strips of a power of two off one
// another's cache sets.
template <class T = float>
int64_t strip_of_a(int64_t k) {
  return k * kStripRows + 64 / static_cast<int64_t>(sizeof(T));
}
template <class T = float>
int64_t strip_of_b(int64_t k) {
  return k * strip_columns<T>() + 128 / static_cast<int64_t>(sizeof(T));
}

#if HWY_TARGET != HWY_SCALAR

// Rows and columns of the blocks in which what is contiguous along k is turned round.
template <class T>
constexpr int64_t kTurned = 16 / static_cast<int64_t>(sizeof(T));

// A strip of b whose columns are contiguous along k. How many values of k that was.
template <class T>
int64_t pack_columns(const T* b, int64_t column, int64_t k, int64_t wide, T* to) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    constexpr int64_t kSide = 16;
    int64_t i = 0;
    for (; i + kSide <= k; i += kSide)
      for (int64_t j = 0; j < wide; j += kSide) {
        // More columns than the processor follows by itself.
        for (int64_t r = 0; r < kSide; ++r)
          __builtin_prefetch(b + (j + r) * column + i + kLinesAhead * kSide);
        transpose_wide(reinterpret_cast<const float*>(b + j * column + i), column,
                       reinterpret_cast<float*>(to + i * wide + j), wide);
      }
    return i;
  }
#endif
  constexpr int64_t kSide = kTurned<T>;
  int64_t i = 0;
  for (; i + kSide <= k; i += kSide)
    for (int64_t j = 0; j < wide; j += kSide)
      transpose_small(b + j * column + i, column, to + i * wide + j, wide);
  return i;
}

// A strip of a whose rows are contiguous along k. How many values of k that was. Six rows are
// packed as blocks; of four, two rows again: the first two of these stand where the last two did.
template <class T>
int64_t pack_strip(const T* a, int64_t row, int64_t k, T* to) {
  constexpr int64_t kSide = kTurned<T>;
  int64_t i = 0;
  for (; i + kSide <= k; i += kSide)
    for (int64_t r = 0; r < kStripRows; r += kSide) {
      const int64_t first = std::min(r, kStripRows - kSide);
      transpose_small(a + first * row + i, row, to + i * kStripRows + first, kStripRows);
    }
  return i;
}

// One k of a strip of a that is contiguous along its rows.
template <class T>
GSPMD_INLINE void copy_rows(const T* from, T* to) {
  constexpr int64_t kSide = kTurned<T>;
  const hn::FixedTag<T, kSide> d;
  for (int64_t i = 0; i + kSide <= kStripRows; i += kSide)
    hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  constexpr int64_t kLast = kStripRows - kSide;
  if constexpr (kStripRows % kSide != 0) hn::StoreU(hn::LoadU(d, from + kLast), d, to + kLast);
}

#else

template <class T>
constexpr int64_t kTurned = 1;
template <class T>
int64_t pack_columns(const T*, int64_t, int64_t, int64_t, T*) {
  return 0;
}
template <class T>
int64_t pack_strip(const T*, int64_t, int64_t, T*) {
  return 0;
}
template <class T>
void copy_rows(const T* from, T* to) {
  std::copy_n(from, kStripRows, to);
}

#endif

// Strips of `wide` values for each k: `from` has steps of `step` along them and `step_k` along k.
template <class T>
void pack_any(const T* from, int64_t step, int64_t step_k, int64_t count, int64_t first_k,
              int64_t k, int64_t wide, T* to) {
  for (int64_t i = first_k; i < k; ++i) {
    const T* const p = from + i * step_k;
    for (int64_t j = 0; j < wide; ++j) to[i * wide + j] = j < count ? p[j * step] : T(0);
  }
}

// The full strips of what is contiguous along them, all strips of some k at a time: memory is read
// in order. How many rows that was.
template <class T>
int64_t pack_rows_of_a(const PackedExtents& e, const T* a, int64_t rows, int64_t k, T* to) {
  const int64_t full = rows / kStripRows * kStripRows, step = strip_of_a<T>(k);
  for (int64_t i = 0; i < k; ++i) {
    const T* const from = a + i * e.a_k;
    T* strip = to + i * kStripRows;
    for (int64_t j = 0; j < full; j += kStripRows, strip += step) {
      __builtin_prefetch(from + kAhead * e.a_k + j);
      copy_rows(from + j, strip);
    }
  }
  return full;
}

// How strips of b lie: `wide` columns each, a multiple of a vector, `step` elements from one to the
// next.
struct Strips {
  int64_t wide, step;
};

template <class T>
int64_t pack_rows_of_b(const PackedExtents& e, const T* b, int64_t k, int64_t columns,
                       Strips strips, T* to) {
  constexpr int64_t kTogether = 4;
  const LaneTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t wide = strips.wide, full = columns / wide * wide;
  for (int64_t i = 0; i < k; i += kTogether) {
    const int64_t end = std::min(k, i + kTogether);
    T* strip = to;
    for (int64_t j = 0; j < full; j += wide, strip += strips.step) {
      for (int64_t r = i; r < end; ++r) {
        const T* const p = b + r * e.b_k + j;
        for (int64_t v = 0; v < wide; v += lanes) {
          __builtin_prefetch(p + kAhead * e.b_k + v);
          hn::StoreU(hn::LoadU(d, p + v), d, strip + r * wide + v);
        }
      }
    }
  }
  return full;
}

template <class T>
void pack_a(const PackedExtents& e, const T* a, int64_t rows, int64_t k, T* to) {
  int64_t i = e.a_row == 1 ? pack_rows_of_a(e, a, rows, k, to) : 0;
  for (to += i / kStripRows * strip_of_a<T>(k); i < rows; i += kStripRows, to += strip_of_a<T>(k)) {
    const int64_t count = std::min(kStripRows, rows - i);
    const T* const strip = a + i * e.a_row;
    const int64_t done = count == kStripRows && e.a_k == 1 ? pack_strip(strip, e.a_row, k, to) : 0;
    pack_any(strip, e.a_row, e.a_k, count, done, k, kStripRows, to);
  }
}

template <class T>
void pack_b(const PackedExtents& e, const T* b, int64_t k, int64_t columns, Strips strips, T* to) {
  const int64_t wide = strips.wide;
  int64_t j = e.b_n == 1 ? pack_rows_of_b(e, b, k, columns, strips, to) : 0;
  for (to += j / wide * strips.step; j < columns; j += wide, to += strips.step) {
    const int64_t count = std::min(wide, columns - j);
    const T* const strip = b + j * e.b_n;
    int64_t done = 0;
    if (count == wide && e.b_k == 1 && wide % kTurned<T> == 0)
      done = pack_columns(strip, e.b_n, k, wide, to);
    pack_any(strip, e.b_n, e.b_k, count, done, k, wide, to);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#endif
