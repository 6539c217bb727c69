// What blocks of a triangular factorization or solution owe to each other, for the target that is
// compiled. Included per target (see foreach_target.h), so without a guard that lasts.
#if defined(GSPMD_KERNELS_TRIANGULAR_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GSPMD_KERNELS_TRIANGULAR_TILE_INL_H_
#undef GSPMD_KERNELS_TRIANGULAR_TILE_INL_H_
#else
#define GSPMD_KERNELS_TRIANGULAR_TILE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using TileVector = hn::Vec<hn::ScalableTag<T>>;

template <class T>
constexpr int64_t kTileLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));

// x[i][v] = sum over k in [0, count) of factor(k, i) * line k, from the first k on; `count` is
// even. Lines are kVectors vectors, one after the other.
template <class T, int64_t kRows, int64_t kVectors, class Factor>
GSPMD_INLINE void tile_product(int64_t count, const T* HWY_RESTRICT lines, const Factor& factor,
                               TileVector<T> (&x)[kRows][kVectors]) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = kTileLanes<T>;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t v = 0; v < kVectors; ++v) x[i][v] = hn::Zero(d);
  const auto step = [&](int64_t k) HWY_ATTR {
    TileVector<T> line[kVectors];
    for (int64_t v = 0; v < kVectors; ++v)
      line[v] = hn::LoadU(d, lines + (k * kVectors + v) * kLanes);
    for (int64_t i = 0; i < kRows; ++i) {
      const auto own = hn::Set(d, factor(k, i));
      for (int64_t v = 0; v < kVectors; ++v) x[i][v] = hn::MulAdd(own, line[v], x[i][v]);
    }
  };
  // As many at a time as leave all sums in registers (gemm_packed.cpp).
  for (int64_t k = 0; k < count; k += 2) {
    step(k);
    step(k + 1);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#endif
