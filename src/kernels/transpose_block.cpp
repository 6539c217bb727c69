// Blocks of one cache line square: every line of source and target is touched once, so that rows a
// power of two apart, which share one cache set, do not throw each other out.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose_block.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <cstring>

#include "kernels/transpose_block.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kSide = 16;

#if HWY_TARGET == HWY_AVX3

// Rounds of exchanges over distances 1, 2 (inside quarters), then 4, 8 (quarters between
// registers).
void transpose(const uint32_t* source, int64_t source_row, uint32_t* target, int64_t target_row) {
  __m512 a[kSide], b[kSide];
  for (int64_t i = 0; i < kSide; ++i) a[i] = _mm512_loadu_ps(source + i * source_row);
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
    for (int64_t q = 0; q < 4; ++q) _mm512_storeu_ps(target + (4 * q + c) * target_row, rows[q]);
  }
}

#else

void transpose(const uint32_t* source, int64_t source_row, uint32_t* target, int64_t target_row) {
  alignas(64) uint32_t in[kSide * kSide], out[kSide * kSide];
  for (int64_t j = 0; j < kSide; ++j) {
    std::memcpy(in + j * kSide, source + j * source_row, sizeof(uint32_t) * kSide);
  }
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) out[i * kSide + j] = in[j * kSide + i];
  }
  for (int64_t i = 0; i < kSide; ++i) {
    std::memcpy(target + i * target_row, out + i * kSide, sizeof(uint32_t) * kSide);
  }
}

#endif

}  // namespace

TransposeBlock find_transpose_block() { return transpose; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_transpose_block);
TransposeBlock transpose_block_function() {
  static const TransposeBlock function = HWY_DYNAMIC_DISPATCH(find_transpose_block)();
  return function;
}
}  // namespace gspmd
#endif
