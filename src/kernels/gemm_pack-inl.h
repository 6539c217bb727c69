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

using Tag = hn::ScalableTag<float>;
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
int64_t strip_columns() { return kStripVectors * static_cast<int64_t>(hn::Lanes(Tag())); }

// Floats from one strip to the next. The lines between them keep strips of a power of two off one
// another's cache sets.
int64_t strip_of_a(int64_t k) { return k * kStripRows + 16; }
[[maybe_unused]] int64_t strip_of_b(int64_t k) { return k * strip_columns() + 32; }

#if HWY_TARGET != HWY_SCALAR

// A strip of b whose columns are contiguous along k. How many values of k that was.
int64_t pack_columns(const float* b, int64_t column, int64_t k, int64_t wide, float* to) {
#if HWY_TARGET == HWY_AVX3
  constexpr int64_t kSide = 16;
#else
  constexpr int64_t kSide = 4;
#endif
  int64_t i = 0;
  for (; i + kSide <= k; i += kSide)
    for (int64_t j = 0; j < wide; j += kSide) {
#if HWY_TARGET == HWY_AVX3
      // More columns than the processor follows by itself.
      for (int64_t r = 0; r < kSide; ++r)
        __builtin_prefetch(b + (j + r) * column + i + kLinesAhead * kSide);
      transpose_wide(b + j * column + i, column, to + i * wide + j, wide);
#else
      transpose_small(b + j * column + i, column, to + i * wide + j, wide);
#endif
    }
  return i;
}

// A strip of a whose rows are contiguous along k. How many values of k that was. Six rows are
// packed as four and, two of them again, as four: the first two of these stand where the last two
// did.
int64_t pack_strip(const float* a, int64_t row, int64_t k, float* to) {
  int64_t i = 0;
  for (; i + 4 <= k; i += 4)
    for (int64_t r = 0; r < kStripRows; r += 4) {
      const int64_t first = std::min(r, kStripRows - 4);
      transpose_small(a + first * row + i, row, to + i * kStripRows + first, kStripRows);
    }
  return i;
}

// One k of a strip of a that is contiguous along its rows.
GSPMD_INLINE void copy_rows(const float* from, float* to) {
  const hn::FixedTag<float, 4> d;
  for (int64_t i = 0; i + 4 <= kStripRows; i += 4) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  constexpr int64_t kLast = kStripRows - 4;
  hn::StoreU(hn::LoadU(d, from + kLast), d, to + kLast);
}

#else

int64_t pack_columns(const float*, int64_t, int64_t, int64_t, float*) { return 0; }
int64_t pack_strip(const float*, int64_t, int64_t, float*) { return 0; }
void copy_rows(const float* from, float* to) { std::copy_n(from, kStripRows, to); }

#endif

// Strips of `wide` values for each k: `from` has steps of `step` along them and `step_k` along k.
void pack_any(const float* from, int64_t step, int64_t step_k, int64_t count, int64_t first_k,
              int64_t k, int64_t wide, float* to) {
  for (int64_t i = first_k; i < k; ++i) {
    const float* const p = from + i * step_k;
    for (int64_t j = 0; j < wide; ++j) to[i * wide + j] = j < count ? p[j * step] : 0.0F;
  }
}

// The full strips of what is contiguous along them, all strips of some k at a time: memory is read
// in order. How many rows that was.
int64_t pack_rows_of_a(const PackedExtents& e, const float* a, int64_t rows, int64_t k, float* to) {
  const int64_t full = rows / kStripRows * kStripRows, step = strip_of_a(k);
  for (int64_t i = 0; i < k; ++i) {
    const float* const from = a + i * e.a_k;
    float* strip = to + i * kStripRows;
    for (int64_t j = 0; j < full; j += kStripRows, strip += step) {
      __builtin_prefetch(from + kAhead * e.a_k + j);
      copy_rows(from + j, strip);
    }
  }
  return full;
}

// How strips of b lie: `wide` columns each, a multiple of a vector, `step` floats from one to the
// next.
struct Strips {
  int64_t wide, step;
};

int64_t pack_rows_of_b(const PackedExtents& e, const float* b, int64_t k, int64_t columns,
                       Strips strips, float* to) {
  constexpr int64_t kTogether = 4;
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t wide = strips.wide, full = columns / wide * wide;
  for (int64_t i = 0; i < k; i += kTogether) {
    const int64_t end = std::min(k, i + kTogether);
    float* strip = to;
    for (int64_t j = 0; j < full; j += wide, strip += strips.step) {
      for (int64_t r = i; r < end; ++r) {
        const float* const p = b + r * e.b_k + j;
        for (int64_t v = 0; v < wide; v += lanes) {
          __builtin_prefetch(p + kAhead * e.b_k + v);
          hn::StoreU(hn::LoadU(d, p + v), d, strip + r * wide + v);
        }
      }
    }
  }
  return full;
}

[[maybe_unused]] void pack_a(const PackedExtents& e, const float* a, int64_t rows, int64_t k,
                             float* to) {
  int64_t i = e.a_row == 1 ? pack_rows_of_a(e, a, rows, k, to) : 0;
  for (to += i / kStripRows * strip_of_a(k); i < rows; i += kStripRows, to += strip_of_a(k)) {
    const int64_t count = std::min(kStripRows, rows - i);
    const float* const strip = a + i * e.a_row;
    const int64_t done = count == kStripRows && e.a_k == 1 ? pack_strip(strip, e.a_row, k, to) : 0;
    pack_any(strip, e.a_row, e.a_k, count, done, k, kStripRows, to);
  }
}

void pack_b(const PackedExtents& e, const float* b, int64_t k, int64_t columns, Strips strips,
            float* to) {
  const int64_t wide = strips.wide;
  int64_t j = e.b_n == 1 ? pack_rows_of_b(e, b, k, columns, strips, to) : 0;
  for (to += j / wide * strips.step; j < columns; j += wide, to += strips.step) {
    const int64_t count = std::min(wide, columns - j);
    const float* const strip = b + j * e.b_n;
    int64_t done = 0;
    if (count == wide && e.b_k == 1 && wide % 4 == 0)
      done = pack_columns(strip, e.b_n, k, wide, to);
    pack_any(strip, e.b_n, e.b_k, count, done, k, wide, to);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#endif
