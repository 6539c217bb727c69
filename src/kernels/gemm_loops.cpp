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
#include "kernels/transpose-inl.h"

#ifndef GSPMD_GEMM_LOOP_TYPE
#define GSPMD_GEMM_LOOP_TYPE
namespace gspmd {
constexpr int64_t kLoopDepth = 128;  // summands of what is turned around first
constexpr int64_t kLoopBlock = 256;  // summands of a block
using GemmLoopFunction = void (*)(const GemmExtents& e, const std::byte* a, const std::byte* b,
                                  std::byte* c);
}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Operands where rows are so many elements apart, and a block of k.
template <class T>
struct Rows {
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row, a_row, k;
  bool adds;  // to what c has of the blocks before
};

// The first `n` lanes, which are those of `mask`; what is behind them need not be there.
template <class D, class T>
GSPMD_INLINE hn::Vec<D> load_first(D d, [[maybe_unused]] hn::Mask<D> mask, const T* from,
                                   [[maybe_unused]] int64_t n) {
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(mask, d, from);
#else
  HWY_ALIGN T all[HWY_LANES(T)] = {};
  std::copy_n(from, n, all);
  return hn::Load(d, all);
#endif
}

// kRows rows, kVectors vectors of columns; kMasked: of the last one the first `rest`.
template <int kRows, int kVectors, bool kMasked, class T>
void float_block(const Rows<T>& rows, const T* a, int64_t row, int64_t rest) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  const auto mask = hn::FirstN(d, static_cast<size_t>(rest));
  V sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      const T* const c = rows.c + (row + r) * rows.c_row + v * lanes;
      sums[r][v] = !rows.adds                     ? hn::Zero(d)
                   : kMasked && v == kVectors - 1 ? load_first(d, mask, c, rest)
                                                  : hn::LoadU(d, c);
    }
  a += row * rows.a_row;
  const T* b = rows.b;
  for (int64_t k = 0; k < rows.k; ++k, b += rows.b_row) {
    V x[kVectors];
    for (int v = 0; v < kVectors; ++v)
      x[v] = kMasked && v == kVectors - 1 ? load_first(d, mask, b + v * lanes, rest)
                                          : hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const V s = hn::Set(d, a[r * rows.a_row + k]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(s, x[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      T* const to = rows.c + (row + r) * rows.c_row + v * lanes;
      if (kMasked && v == kVectors - 1)
        hn::BlendedStore(sums[r][v], mask, d, to);
      else
        hn::StoreU(sums[r][v], d, to);
    }
}

// One row, any columns: c = sum of rows of b. Integers wrap around, on the unsigned type.
template <class T>
void plain_row(const GemmExtents& e, const T* a, const T* b, T* c) {
  for (int64_t j = 0; j < e.n; ++j) c[j] = T(0);
  for (int64_t k = 0; k < e.k; ++k) {
    const T s = a[k];
    const T* row = b + k * e.b_step();
    GSPMD_IVDEP
    for (int64_t j = 0; j < e.n; ++j) c[j] = c[j] + s * row[j];
  }
}

// All rows, kVectors vectors of columns of b and c.
template <int kVectors, bool kMasked, class T>
void float_columns(const Rows<T>& rows, const T* a, int64_t count, int64_t rest) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) float_block<4, kVectors, kMasked>(rows, a, i, rest);
  for (; i < count; ++i) float_block<1, kVectors, kMasked>(rows, a, i, rest);
}

// panel[k * wide + c] = b[c * b_row + k] of `columns` columns.
template <class T>
void fill_panel(const T* b, int64_t b_row, int64_t depth, int64_t columns, T* panel, int64_t wide) {
  int64_t k0 = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = 16 / sizeof(T);
  const int64_t whole = columns / kSide * kSide;
  for (; k0 + kSide <= depth; k0 += kSide) {
    for (int64_t c = 0; c < whole; c += kSide)
      transpose_small(b + c * b_row + k0, b_row, panel + k0 * wide + c, wide);
    for (int64_t c = whole; c < columns; ++c)
      for (int64_t k = k0; k < k0 + kSide; ++k) panel[k * wide + c] = b[c * b_row + k];
  }
#endif
  for (; k0 < depth; ++k0)
    for (int64_t c = 0; c < columns; ++c) panel[k0 * wide + c] = b[c * b_row + k0];
}

// Columns of one block of k. A panel of two vectors of columns of b is read by all rows while it is
// in cache.
template <class T>
void float_columns_of(const GemmExtents& e, const T* a, const T* b, T* c, int64_t depth,
                      bool adds) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())), wide = 2 * lanes;
  alignas(64) T panel[kLoopDepth * 128 / sizeof(T)];
  for (int64_t j = 0; j < e.n; j += wide) {
    const int64_t columns = std::min(wide, e.n - j);
    if (e.b_transposed) fill_panel(b + j * e.b_step(), e.b_step(), depth, columns, panel, wide);
    const Rows<T> rows{e.b_transposed ? panel : b + j,
                       e.b_transposed ? wide : e.b_step(),
                       c + j,
                       e.c_step(),
                       e.k,
                       depth,
                       adds};
    if (columns == wide)
      float_columns<2, false>(rows, a, e.rows, lanes);
    else if (columns > lanes)
      float_columns<2, true>(rows, a, e.rows, columns - lanes);
    else
      float_columns<1, true>(rows, a, e.rows, columns);
  }
}

// Block by block of k, of which a's rows stay near for all columns.
template <class T>
void float_product(const GemmExtents& e, const std::byte* a_bytes, const std::byte* b_bytes,
                   std::byte* c_bytes) {
  const T* a = reinterpret_cast<const T*>(a_bytes);
  const T* b = reinterpret_cast<const T*>(b_bytes);
  T* const c = reinterpret_cast<T*>(c_bytes);
  for (int64_t k = 0; k < e.k; k += kLoopBlock)
    float_columns_of(e, a + k, b + (e.b_transposed ? k : k * e.b_step()), c,
                     std::min(kLoopBlock, e.k - k), k > 0);
}

template <class T>
void integer_product(const GemmExtents& e, const std::byte* a_bytes, const std::byte* b_bytes,
                     std::byte* c_bytes) {
  const T* a = reinterpret_cast<const T*>(a_bytes);
  const T* b = reinterpret_cast<const T*>(b_bytes);
  T* c = reinterpret_cast<T*>(c_bytes);
  for (int64_t i = 0; i < e.rows; ++i) plain_row(e, a + i * e.k, b, c + i * e.c_step());
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

bool reads_transposed(DType dtype, int64_t k) {
  return (dtype == DType::f32 || dtype == DType::f64) && k <= kLoopDepth;
}

std::unique_ptr<GemmProduct> loop_product(DType dtype, const GemmExtents& extents) {
  const GemmLoopFunction function = HWY_DYNAMIC_DISPATCH(find_gemm_loop)(dtype);
  if (function == nullptr || (extents.b_transposed && !reads_transposed(dtype, extents.k))) {
    internal_error("gemm: no loop for {}", dtype_name(dtype));
  }
  return std::make_unique<LoopProduct>(function, extents);
}

}  // namespace gspmd
#endif
