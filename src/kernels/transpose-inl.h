// Transposes of small blocks in registers, for the files compiled once per instruction set.
// Included inside each target's pass (see hwy/foreach_target.h), hence the toggled guard.
#if defined(GSPMD_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GSPMD_TRANSPOSE_INL
#undef GSPMD_TRANSPOSE_INL
#else
#define GSPMD_TRANSPOSE_INL
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// Blocks of 16 bytes square: as many rounds of interleaving as an index has bits.
template <class T>
void transpose_small(const T* source, int64_t source_row, T* target, int64_t target_row) {
  constexpr int kLanes = 16 / sizeof(T);
  const hn::FixedTag<T, kLanes> d;
  hn::Vec<decltype(d)> a[kLanes], b[kLanes];
  for (int i = 0; i < kLanes; ++i) a[i] = hn::LoadU(d, source + i * source_row);
  for (int round = 1; round < kLanes; round *= 2) {
    for (int i = 0; i < kLanes / 2; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kLanes / 2]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kLanes; ++i) hn::StoreU(a[i], d, target + i * target_row);
}

#endif

#if HWY_TARGET == HWY_AVX3

// Rounds of exchanges over distances 1, 2 (inside quarters), then 4, 8 (quarters between
// registers) of 16 rows; store(column, its elements).
template <class Store>
GSPMD_INLINE void transpose_registers(__m512 (&a)[16], Store&& store) {
  constexpr int64_t kSide = 16;
  __m512 b[kSide];
  for (int64_t i = 0; i < kSide; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int64_t i = 0; i < kSide; i += 4) {
    for (int64_t j = 0; j < 2; ++j) {
      const __m512d x = _mm512_castps_pd(b[i + j]), y = _mm512_castps_pd(b[i + j + 2]);
      a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  }
  // a[4 g + c] holds in quarter q the columns 4 q + c of the rows 4 g .. 4 g + 3.
  for (int64_t c = 0; c < 4; ++c) {
    b[c] = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88);           // quarters 0, 2 of row groups 0, 1
    b[4 + c] = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);       // quarters 1, 3
    b[8 + c] = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);  // the same of row groups 2, 3
    b[12 + c] = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
  }
  for (int64_t c = 0; c < 4; ++c) {
    const __m512 rows[] = {_mm512_shuffle_f32x4(b[c], b[8 + c], 0x88),
                           _mm512_shuffle_f32x4(b[4 + c], b[12 + c], 0x88),
                           _mm512_shuffle_f32x4(b[c], b[8 + c], 0xdd),
                           _mm512_shuffle_f32x4(b[4 + c], b[12 + c], 0xdd)};
    for (int64_t q = 0; q < 4; ++q) store(4 * q + c, rows[q]);
  }
}

inline void transpose_wide(const float* source, int64_t source_row, float* target,
                           int64_t target_row) {
  __m512 a[16];
  for (int64_t i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(source + i * source_row);
  transpose_registers(
      a, [&](int64_t i, __m512 line) HWY_ATTR { _mm512_storeu_ps(target + i * target_row, line); });
}

// Pairs of rows as rows of pairs: columns 0-3, 8-11, ... first, then those between.
inline void transpose_wide(const uint16_t* source, int64_t source_row, uint16_t* target,
                           int64_t target_row) {
  for (int64_t half = 0; half < 2; ++half) {
    __m512 a[16];
    for (int64_t i = 0; i < 16; ++i) {
      const uint16_t* const row = source + 2 * i * source_row;
      const __m512i x = _mm512_loadu_si512(row), y = _mm512_loadu_si512(row + source_row);
      a[i] = _mm512_castsi512_ps(half == 0 ? _mm512_unpacklo_epi16(x, y)
                                           : _mm512_unpackhi_epi16(x, y));
    }
    transpose_registers(a, [&](int64_t i, __m512 line) HWY_ATTR {
      _mm512_storeu_ps(target + (8 * (i / 4) + 4 * half + i % 4) * target_row, line);
    });
  }
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#endif
