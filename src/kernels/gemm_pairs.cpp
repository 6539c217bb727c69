// Products of bf16 by the instruction that adds two products to each lane of f32: pairs of two
// values of k stand side by side in 32 bits, and go where single floats do in gemm_packed.cpp.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_pairs.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "kernels/gemm_product.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3

constexpr int64_t kRows = 6, kVectors = kStripOfLibrary / 16;  // of a block of registers

// Of the names that the compiler's target does not have.
GSPMD_INLINE __m512 add_products(__m512 sum, __m512 a, __m512 b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
GSPMD_INLINE __m256i rounded(__m512 x) {
  __m256i halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(x));
  return halves;
}

// Where a block of registers goes, and how many columns of it.
struct Target {
  std::byte* to;
  int64_t row;  // elements
  int64_t columns;
  bool is_half, adds;
};

GSPMD_INLINE void store(const Target& c, int64_t row, int64_t v, __m512 x) {
  const int64_t at = row * c.row + v * 16, count = std::min<int64_t>(c.columns - v * 16, 16);
  if (count <= 0) return;
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  if (c.is_half)
    return _mm256_mask_storeu_epi16(reinterpret_cast<uint16_t*>(c.to) + at, mask, rounded(x));
  float* const to = reinterpret_cast<float*>(c.to) + at;
  if (c.adds) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, to));
  _mm512_mask_storeu_ps(to, mask, x);
}

// c[rows, one strip of columns] = or += a * strip. Pairs of a row lie behind each other, or, not
// `kAlongK`, rows of a pair.
template <int64_t kCount, bool kAlongK>
void block(const PairExtents& e, const std::byte* a, const float* strip, const Target& c) {
  __m512 x[kCount][kVectors];
  for (int64_t i = 0; i < kCount; ++i)
    for (int64_t v = 0; v < kVectors; ++v) x[i][v] = _mm512_setzero_ps();
  // Few registers hold addresses: every third row, and one and two rows behind it.
  const std::byte* rows[(kCount + 2) / 3];
  for (int64_t i = 0; i < (kCount + 2) / 3; ++i) rows[i] = a + 3 * i * e.a_row;
  const auto pair = [&](int64_t i, int64_t p) {
    float both;
    const std::byte* const at =
        kAlongK ? rows[i / 3] + (i % 3) * e.a_row + 4 * p : a + p * e.a_pair + 4 * i;
    std::memcpy(&both, at, sizeof both);
    return both;
  };
  for (int64_t p = 0; p < e.pairs; ++p) {
    __m512 u[kVectors];
    for (int64_t v = 0; v < kVectors; ++v)
      u[v] = _mm512_loadu_ps(strip + p * kStripOfLibrary + v * 16);
    for (int64_t i = 0; i < kCount; ++i) {
      const __m512 r = _mm512_set1_ps(pair(i, p));
      for (int64_t v = 0; v < kVectors; ++v) x[i][v] = add_products(x[i][v], r, u[v]);
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) store(c, i, v, x[i][v]);
  }
}

template <bool kAlongK>
void strip_product(const PairExtents& e, const std::byte* a, const float* strip, Target c) {
  const int64_t row_bytes = c.row * (c.is_half ? 2 : 4);
  int64_t left = e.rows;
  for (; left >= kRows; left -= kRows) {
    block<kRows, kAlongK>(e, a, strip, c);
    a += kRows * e.a_row;
    c.to += kRows * row_bytes;
  }
  if (left == 5) return block<5, kAlongK>(e, a, strip, c);
  if (left == 4) return block<4, kAlongK>(e, a, strip, c);
  if (left == 3) return block<3, kAlongK>(e, a, strip, c);
  if (left == 2) return block<2, kAlongK>(e, a, strip, c);
  if (left == 1) return block<1, kAlongK>(e, a, strip, c);
}

void multiply(const PairExtents& e, DType result, bool adds, const std::byte* a,
              const std::byte* strips, std::byte* c) {
  const bool is_half = result == DType::bf16;
  for (int64_t j = 0; j < e.n; j += kStripOfLibrary, strips += e.strip) {
    const auto* const strip = reinterpret_cast<const float*>(strips);
    const Target to{c + j * (is_half ? 2 : 4), e.c_row, e.n - j, is_half, adds};
    if (e.a_pair == 4)
      strip_product<true>(e, a, strip, to);
    else
      strip_product<false>(e, a, strip, to);
  }
}

void interleave(const std::byte* lines, int64_t step, int64_t count, int64_t length,
                std::byte* to) {
  for (int64_t i = 0; i < count; i += 2, lines += 2 * step, to += length * 4) {
    const std::byte* const next = lines + step;
    const bool has_next = i + 1 < count;
    for (int64_t j = 0; j < length; j += 16) {
      const int64_t left = std::min<int64_t>(length - j, 16);
      const auto mask = static_cast<__mmask16>((1u << left) - 1);
      const auto read = [&](const std::byte* line, bool is_there) {
        const auto live = is_there ? mask : __mmask16{0};
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(live, line + 2 * j));
      };
      const __m512i low = read(lines, true), high = read(next, has_next);
      _mm512_mask_storeu_epi32(to + 4 * j, mask, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

const PairFunctions kFunctions{multiply, interleave};
const PairFunctions* const kFound = &kFunctions;

#else

const PairFunctions* const kFound = nullptr;

#endif

}  // namespace

const PairFunctions* find_pairs() { return kFound; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_pairs);

}  // namespace

const PairFunctions* pair_functions() {
  static const PairFunctions* const found =
      multiplies_pairs() ? HWY_DYNAMIC_DISPATCH(find_pairs)() : nullptr;
  return found;
}

}  // namespace gspmd
#endif
