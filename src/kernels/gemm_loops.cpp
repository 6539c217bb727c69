// Products of element types that the library lacks, and tiny ones: register blocks of four rows.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_loops.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <type_traits>

#include "gspmd/base/error.h"
#include "kernels/gemm_product.h"

#ifndef GSPMD_GEMM_LOOP_TYPE
#define GSPMD_GEMM_LOOP_TYPE
namespace gspmd {
using GemmLoopFunction = void (*)(const GemmExtents& e, const std::byte* a, const std::byte* b,
                                  std::byte* c);
}
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// kRows rows, columns [j, j + 2 vectors).
template <class T, int kRows>
void float_block(const GemmExtents& e, const T* a, const T* b, T* c, int64_t j) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  V x0 = hn::Zero(d), x1 = x0, x2 = x0, x3 = x0, y0 = x0, y1 = x0, y2 = x0, y3 = x0;
  for (int64_t k = 0; k < e.k; ++k) {
    const V p = hn::LoadU(d, b + k * e.n + j), q = hn::LoadU(d, b + k * e.n + j + lanes);
    const V s0 = hn::Set(d, a[k]);
    x0 = hn::MulAdd(s0, p, x0);
    y0 = hn::MulAdd(s0, q, y0);
    if constexpr (kRows == 4) {
      const V s1 = hn::Set(d, a[e.k + k]), s2 = hn::Set(d, a[2 * e.k + k]),
              s3 = hn::Set(d, a[3 * e.k + k]);
      x1 = hn::MulAdd(s1, p, x1);
      y1 = hn::MulAdd(s1, q, y1);
      x2 = hn::MulAdd(s2, p, x2);
      y2 = hn::MulAdd(s2, q, y2);
      x3 = hn::MulAdd(s3, p, x3);
      y3 = hn::MulAdd(s3, q, y3);
    }
  }
  const auto put = [&](int64_t row, V x, V y) {
    hn::StoreU(x, d, c + row * e.n + j);
    hn::StoreU(y, d, c + row * e.n + j + lanes);
  };
  put(0, x0, y0);
  if constexpr (kRows == 4) {
    put(1, x1, y1);
    put(2, x2, y2);
    put(3, x3, y3);
  }
}

// One row, any columns: c = sum of rows of b. Integers wrap around, on the unsigned type.
template <class T>
void plain_row(const GemmExtents& e, const T* a, const T* b, T* c, int64_t j0) {
  if (j0 >= e.n) return;
  for (int64_t j = j0; j < e.n; ++j) c[j] = T(0);
  for (int64_t k = 0; k < e.k; ++k) {
    const T s = a[k];
    const T* row = b + k * e.n;
    GSPMD_IVDEP
    for (int64_t j = j0; j < e.n; ++j) c[j] = c[j] + s * row[j];
  }
}

// All rows, columns [j, j + 2 vectors) of b and c.
template <class T>
void float_columns(const GemmExtents& e, const T* a, const T* b, T* c, int64_t j) {
  int64_t i = 0;
  for (; i + 4 <= e.rows; i += 4) float_block<T, 4>(e, a + i * e.k, b, c + i * e.n, j);
  for (; i < e.rows; ++i) float_block<T, 1>(e, a + i * e.k, b, c + i * e.n, j);
}

template <class T>
void float_product(const GemmExtents& e, const std::byte* a_bytes, const std::byte* b_bytes,
                   std::byte* c_bytes) {
  const T* a = reinterpret_cast<const T*>(a_bytes);
  const T* b = reinterpret_cast<const T*>(b_bytes);
  T* c = reinterpret_cast<T*>(c_bytes);
  const int64_t wide = 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t vector_columns = e.n / wide * wide, rest = e.n - vector_columns;
  // A panel of columns of b is read by all rows while it is in cache.
  for (int64_t j = 0; j < vector_columns; j += wide) float_columns(e, a, b, c, j);
  if (rest == 0) return;
  // Columns that fill no vectors: on a panel that zeros fill, a few rows at a time.
  constexpr int64_t kMostK = 128, kMostRows = 32, kMostWide = 128 / sizeof(T);
  if (e.k > kMostK || wide > kMostWide) {
    for (int64_t i = 0; i < e.rows; ++i) plain_row(e, a + i * e.k, b, c + i * e.n, vector_columns);
    return;
  }
  alignas(64) T panel[kMostK * kMostWide], out[kMostRows * kMostWide];
  std::fill_n(panel, e.k * wide, T(0));
  for (int64_t k = 0; k < e.k; ++k)
    std::copy_n(b + k * e.n + vector_columns, rest, panel + k * wide);
  for (int64_t i = 0; i < e.rows; i += kMostRows) {
    const GemmExtents part{std::min(kMostRows, e.rows - i), wide, e.k};
    float_columns(part, a + i * e.k, panel, out, 0);
    for (int64_t r = 0; r < part.rows; ++r)
      std::copy_n(out + r * wide, rest, c + (i + r) * e.n + vector_columns);
  }
}

template <class T>
void integer_product(const GemmExtents& e, const std::byte* a_bytes, const std::byte* b_bytes,
                     std::byte* c_bytes) {
  const T* a = reinterpret_cast<const T*>(a_bytes);
  const T* b = reinterpret_cast<const T*>(b_bytes);
  T* c = reinterpret_cast<T*>(c_bytes);
  for (int64_t i = 0; i < e.rows; ++i) plain_row(e, a + i * e.k, b, c + i * e.n, 0);
}

}  // namespace

GemmLoopFunction find_gemm_loop(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return float_product<float>;
    case DType::f64:
      return float_product<double>;
    case DType::s32:
    case DType::u32:
      return integer_product<uint32_t>;
    case DType::s64:
    case DType::u64:
      return integer_product<uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_gemm_loop);

class LoopProduct final : public GemmProduct {
 public:
  LoopProduct(GemmLoopFunction function, const GemmExtents& extents)
      : function_(function), extents_(extents) {}
  int64_t scratch_bytes() const override { return 0; }
  void run(const std::byte* a, const std::byte* b, std::byte* c, std::byte*) const override {
    function_(extents_, a, b, c);
  }

 private:
  GemmLoopFunction function_;
  GemmExtents extents_;
};

}  // namespace

std::unique_ptr<GemmProduct> loop_product(DType dtype, const GemmExtents& extents) {
  const GemmLoopFunction function = HWY_DYNAMIC_DISPATCH(find_gemm_loop)(dtype);
  if (function == nullptr || extents.b_transposed) {
    internal_error("gemm: no loop for {}", dtype_name(dtype));
  }
  return std::make_unique<LoopProduct>(function, extents);
}

}  // namespace gspmd
#endif
