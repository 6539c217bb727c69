// Operand b of a product in the layout that the library's blocks of AVX-512 read, made once for all
// rows: strips of 64 columns, in each of which a line of 64 floats, or of 64 pairs of bf16 of two
// k, follows another along k.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_prepack.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "gspmd/kernels/loop_program.h"
#include "kernels/gemm_pack-inl.h"
#include "kernels/gemm_product.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// Lines of pairs of bf16: element 2j of a line is that of the first k.
void pack_pairs(const PackedExtents& e, const uint16_t* b, int64_t first_pair, int64_t columns,
                uint16_t* to) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = first_pair; 2 * i < e.k; ++i) {
    const uint16_t* const even = b + 2 * i * e.b_k;
    const uint16_t* const odd = even + e.b_k;
    uint16_t* const line = to + 2 * i * kStripOfLibrary;
    const bool has_odd = 2 * i + 1 < e.k;
    int64_t j = 0;
    for (; e.b_n == 1 && has_odd && j + lanes <= columns; j += lanes) {
      const auto low = hn::PromoteTo(d, hn::LoadU(half, even + j));
      const auto high = hn::PromoteTo(d, hn::LoadU(half, odd + j));
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d,
                 reinterpret_cast<uint32_t*>(line + 2 * j));
    }
    for (; j < kStripOfLibrary; ++j) {
      line[2 * j] = j < columns ? even[j * e.b_n] : uint16_t{0};
      line[2 * j + 1] = j < columns && has_odd ? odd[j * e.b_n] : uint16_t{0};
    }
  }
}

// One strip of bf16. Where columns are contiguous along k, two k are one float to be moved.
void pack_strip_of_halves(const PackedExtents& e, const uint16_t* b, int64_t columns,
                          uint16_t* to) {
  int64_t pairs = 0;
  if (e.b_k == 1 && e.b_n % 2 == 0 && columns == kStripOfLibrary)
    pairs = pack_columns(reinterpret_cast<const float*>(b), e.b_n / 2, e.k / 2, kStripOfLibrary,
                         reinterpret_cast<float*>(to));
  pack_pairs(e, b, pairs, columns, to);
}

// Lines of pairs of bf16 that stand in the second half of their strip become two lines of floats
// each.
void widen_strip(int64_t pairs, uint32_t* strip) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto upper = hn::Set(d, 0xffff0000u);
  const uint32_t* const from = strip + pairs * kStripOfLibrary;
  for (int64_t i = 0; i < pairs; ++i) {
    uint32_t* const line = strip + 2 * i * kStripOfLibrary;
    for (int64_t j = 0; j < kStripOfLibrary; j += lanes) {
      const auto both = hn::LoadU(d, from + i * kStripOfLibrary + j);
      hn::StoreU(hn::ShiftLeft<16>(both), d, line + j);
      hn::StoreU(hn::And(both, upper), d, line + kStripOfLibrary + j);
    }
  }
}

void prepack_strips(const PackedExtents& e, StripKind kind, const std::byte* b, int64_t first,
                    int64_t last, std::byte* to) {
  const bool halves = kind == StripKind::halves, widened = kind == StripKind::widened;
  const int64_t size = kind == StripKind::floats ? 4 : 2, strip = prepacked_bytes(1, e.k, kind);
  const int64_t pairs = ceil_div(e.k, 2);
  const int64_t before = widened ? pairs * kStripOfLibrary * 4 : 0;  // where lines of pairs begin
  const int64_t column = first * kStripOfLibrary, end = std::min(e.n, last * kStripOfLibrary);
  b += column * e.b_n * size;
  to += first * strip;
  if (kind != StripKind::floats) {
    for (int64_t j = 0; j < end - column; j += kStripOfLibrary) {
      std::byte* const at = to + j / kStripOfLibrary * strip;
      pack_strip_of_halves(e, reinterpret_cast<const uint16_t*>(b) + j * e.b_n,
                           std::min(kStripOfLibrary, end - column - j),
                           reinterpret_cast<uint16_t*>(at + before));
      if (widened) widen_strip(pairs, reinterpret_cast<uint32_t*>(at));
    }
  } else {
    pack_b(e, reinterpret_cast<const float*>(b), e.k, end - column, {kStripOfLibrary, strip / 4},
           reinterpret_cast<float*>(to));
  }
  const int64_t lines = halves ? pairs : e.k;
  const int64_t used = lines * kStripOfLibrary * 4;
  for (int64_t i = first; i < last; ++i, to += strip)
    std::memset(to + used, 0, static_cast<size_t>(strip - used));
}

}  // namespace

decltype(&prepack_strips) find_prepack() { return prepack_strips; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_prepack);

}  // namespace

int64_t prepacked_bytes(int64_t n, int64_t k, StripKind kind) {
  const int64_t lines = kind == StripKind::halves ? ceil_div(k, 32) * 16 : ceil_div(k, 16) * 16;
  return ceil_div(n, kStripOfLibrary) * lines * kStripOfLibrary * 4;
}

void prepack(const PackedExtents& extents, StripKind kind, const std::byte* b, int64_t first,
             int64_t last, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(find_prepack)()(extents, kind, b, first, last, to);
}

}  // namespace gspmd
#endif
