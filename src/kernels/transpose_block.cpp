// Blocks of one cache line square: every line of source and target is touched once, so that rows a
// power of two apart, which share one cache set, do not throw each other out.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose_block.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.

#include "kernels/transpose_block.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <class T>
void transpose_by_small(const T* source, int64_t source_row, T* target, int64_t target_row) {
  constexpr int64_t kSide = block_side(sizeof(T));
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t j = 0; j < kSide; ++j) target[i * target_row + j] = source[j * source_row + i];
}

#else

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

template <class T>
void transpose_by_small(const T* source, int64_t source_row, T* target, int64_t target_row) {
  constexpr int64_t kSide = block_side(sizeof(T)), kLanes = 16 / sizeof(T);
  for (int64_t i = 0; i < kSide; i += kLanes)
    for (int64_t j = 0; j < kSide; j += kLanes)
      transpose_small(source + j * source_row + i, source_row, target + i * target_row + j,
                      target_row);
}

#endif

#if HWY_TARGET == HWY_AVX3

// Rounds of exchanges over distances 1, 2 (inside quarters), then 4, 8 (quarters between
// registers).
template <bool kStreamed>
void transpose_wide(const float* source, int64_t source_row, float* target, int64_t target_row) {
  constexpr int64_t kSide = 16;
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
    for (int64_t q = 0; q < 4; ++q) {
      float* const to = target + (4 * q + c) * target_row;
      if constexpr (kStreamed)
        _mm512_stream_ps(to, rows[q]);
      else
        _mm512_storeu_ps(to, rows[q]);
    }
  }
}

#endif

template <class T, bool kStreamed>
void transpose(const std::byte* source_bytes, int64_t source_row, std::byte* target_bytes,
               int64_t target_row) {
  const auto* const source = reinterpret_cast<const T*>(source_bytes);
  auto* const target = reinterpret_cast<T*>(target_bytes);
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4)
    return transpose_wide<kStreamed>(reinterpret_cast<const float*>(source), source_row,
                                     reinterpret_cast<float*>(target), target_row);
#endif
  if constexpr (kStreamed) {
    constexpr int64_t kSide = block_side(sizeof(T));
    alignas(64) T lines[kSide * kSide];
    transpose_by_small(source, source_row, lines, kSide);
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; j += lanes)
        hn::Stream(hn::Load(d, lines + i * kSide + j), d, target + i * target_row + j);
  } else {
    transpose_by_small(source, source_row, target, target_row);
  }
}

template <bool kStreamed>
TransposeBlock block_of(int64_t element_size) {
  switch (element_size) {
    case 1:
      return transpose<uint8_t, kStreamed>;
    case 2:
      return transpose<uint16_t, kStreamed>;
    case 4:
      return transpose<uint32_t, kStreamed>;
    default:
      return transpose<uint64_t, kStreamed>;
  }
}

}  // namespace

TransposeBlock find_transpose_block(int64_t element_size, bool streamed) {
  return streamed ? block_of<true>(element_size) : block_of<false>(element_size);
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_transpose_block);
TransposeBlock transpose_block_function(int64_t element_size, bool streamed) {
  return HWY_DYNAMIC_DISPATCH(find_transpose_block)(element_size, streamed);
}
}  // namespace gspmd
#endif
