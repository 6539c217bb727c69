// Products of a few rows by a matrix: they take as long as memory takes to give the matrix, so that
// it is read once, in the order in which it lies, whatever its type, and never copied.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_few.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/gemm_product.h"
#include "kernels/lines.h"
#include "kernels/loop_functions.h"

#ifndef GSPMD_GEMM_FEW_TYPES
#define GSPMD_GEMM_FEW_TYPES
namespace gspmd {

// Elements from one row of sums to the next: whole vectors of any type.
inline int64_t sums_row(const FewRowsExtents& e) { return ceil_div(e.n, 16) * 16; }

constexpr int64_t kFewSummed = 2048;  // one by one; then sums are summed

// sums[rows, n] += a[rows, k] * b; behind the sums there is as much room, as zero; a is dense, and
// both are of the type that is summed in.
using FewRowsFunction = void (*)(const FewRowsExtents& e, const std::byte* a, const std::byte* b,
                                 std::byte* sums);

}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Elements of b as numbers to sum, in vectors and one by one.
template <class T>
struct Same {
  using Stored = T;
  using Summed = T;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const T* x) {
    return hn::LoadU(d, x);
  }
  static T read(T x) { return x; }
};
struct BrainBits {
  using Stored = uint16_t;
  using Summed = float;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const uint16_t* x) {
    const hn::RebindToUnsigned<D> wide;
    const hn::Rebind<uint16_t, D> narrow;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, x))));
  }
  static float read(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
};
struct HalfBits {
  using Stored = uint16_t;
  using Summed = float;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const uint16_t* x) {
    const hn::Rebind<uint16_t, D> bits;
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::LoadU(bits, x)));
  }
  static float read(uint16_t x) { return half_to_float(x); }
};

// kLines lines of b, which lie along n, by kRows rows of a, some vectors of each line at once:
// lines a power of two apart are in each other's places in a cache, and each is left after one
// look. The columns that were done.
template <int kLines, int kRows, int kVectors, class B, class T = typename B::Summed>
int64_t add_wide(const FewRowsExtents& e, const T* a, const typename B::Stored* b, T* sums) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + kVectors * lanes <= e.n; j += kVectors * lanes) {
    hn::Vec<decltype(d)> sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = hn::LoadU(d, sums + r * sums_row(e) + j + v * lanes);
    for (int i = 0; i < kLines; ++i) {
      const auto* const line = b + i * e.b_k + j;
      if constexpr (sizeof(*line) == 2) __builtin_prefetch(line + kLines * e.b_k);
      hn::Vec<decltype(d)> x[kVectors];
      for (int v = 0; v < kVectors; ++v) x[v] = B::load(d, line + v * lanes);
      for (int r = 0; r < kRows; ++r) {
        const auto y = hn::Set(d, a[r * e.k + i]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(y, x[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(sum[r][v], d, sums + r * sums_row(e) + j + v * lanes);
  }
  return j;
}
template <int kLines, class B, class T = typename B::Summed>
int64_t add_wide_of(const FewRowsExtents& e, const T* a, const typename B::Stored* b, T* sums) {
  switch (e.rows) {
    case 1:
      return add_wide<kLines, 1, 4, B>(e, a, b, sums);
    case 2:
      return add_wide<kLines, 2, 4, B>(e, a, b, sums);
    case 3:
      return add_wide<kLines, 3, 2, B>(e, a, b, sums);
    case 4:
      return add_wide<kLines, 4, 2, B>(e, a, b, sums);
    default:
      return 0;
  }
}

// kLines lines of b, which lie along n, by their rows of a, vector by vector.
template <int kLines, class B, class T = typename B::Summed>
void add_lines(const FewRowsExtents& e, const T* a, const typename B::Stored* b, T* sums) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto add = [&](const auto* from, int64_t step, int64_t j) HWY_ATTR {
    hn::Vec<decltype(d)> x[kLines];
    for (int i = 0; i < kLines; ++i) x[i] = B::load(d, from + i * step);
    for (int64_t r = 0; r < e.rows; ++r) {
      T* const to = sums + r * sums_row(e) + j;
      auto sum = hn::LoadU(d, to);
      for (int i = 0; i < kLines; ++i) sum = hn::MulAdd(hn::Set(d, a[r * e.k + i]), x[i], sum);
      hn::StoreU(sum, d, to);
    }
  };
  int64_t j = add_wide_of<kLines, B>(e, a, b, sums);
  for (; j + lanes <= e.n; j += lanes) add(b + j, e.b_k, j);
  if (j == e.n) return;
  typename B::Stored rest[kLines * 16] = {};  // nothing behind the last line is read
  for (int i = 0; i < kLines; ++i) std::copy(b + i * e.b_k + j, b + i * e.b_k + e.n, rest + 16 * i);
  add(rest, 16, j);
}

// kRows rows by kColumns columns of b, which lie along k.
template <int kRows, int kColumns, class B, class T = typename B::Summed>
void add_dots(const FewRowsExtents& e, const T* a, const typename B::Stored* b, T* sums) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = e.k / lanes * lanes;
  for (int64_t from = 0; from < whole; from += kFewSummed) {
    hn::Vec<decltype(d)> sum[kRows][kColumns];
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(d);
    for (int64_t p = from; p < std::min(whole, from + kFewSummed); p += lanes) {
      hn::Vec<decltype(d)> x[kColumns];
      for (int c = 0; c < kColumns; ++c) x[c] = B::load(d, b + c * e.b_n + p);
      for (int r = 0; r < kRows; ++r) {
        const auto y = hn::LoadU(d, a + r * e.k + p);
        for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(y, x[c], sum[r][c]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kColumns; ++c)
        sums[r * sums_row(e) + c] += hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c)
      for (int64_t p = whole; p < e.k; ++p)
        sums[r * sums_row(e) + c] += a[r * e.k + p] * B::read(b[c * e.b_n + p]);
}

template <int kColumns, class B, class T = typename B::Summed>
void add_columns(const FewRowsExtents& e, const T* a, const typename B::Stored* b, T* sums) {
  int64_t r = 0;
  for (; r + 4 <= e.rows; r += 4)
    add_dots<4, kColumns, B>(e, a + r * e.k, b, sums + r * sums_row(e));
  for (; r < e.rows; ++r) add_dots<1, kColumns, B>(e, a + r * e.k, b, sums + r * sums_row(e));
}

// All lines of b, which lie along n: those of a block are summed by themselves.
template <class B, class T = typename B::Summed>
void sum_lines(const FewRowsExtents& e, const T* a, const typename B::Stored* b, T* sums) {
  const int64_t size = e.rows * sums_row(e);
  T* const block = e.k > kFewSummed ? sums + size : sums;
  for (int64_t from = 0; from < e.k; from += kFewSummed) {
    const int64_t last = std::min(e.k, from + kFewSummed);
    int64_t k = from;
    for (; k + 8 <= last; k += 8) add_lines<8, B>(e, a + k, b + k * e.b_k, block);
    for (; k < last; ++k) add_lines<1, B>(e, a + k, b + k * e.b_k, block);
    if (block == sums) return;
    for (int64_t i = 0; i < size; ++i) sums[i] += block[i];
    std::fill(block, block + size, T(0));
  }
}

template <class B>
void few_rows(const FewRowsExtents& e, const std::byte* a_bytes, const std::byte* b_bytes,
              std::byte* sums_bytes) {
  using T = typename B::Summed;
  const T* const a = reinterpret_cast<const T*>(a_bytes);
  const auto* const b = reinterpret_cast<const typename B::Stored*>(b_bytes);
  T* const sums = reinterpret_cast<T*>(sums_bytes);
  if (e.b_n == 1) return sum_lines<B>(e, a, b, sums);
  int64_t j = 0;
  for (; j + 4 <= e.n; j += 4) add_columns<4, B>(e, a, b + j * e.b_n, sums + j);
  for (; j < e.n; ++j) add_columns<1, B>(e, a, b + j * e.b_n, sums + j);
}

}  // namespace

FewRowsFunction find_few_rows(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return few_rows<Same<float>>;
    case DType::f64:
      return few_rows<Same<double>>;
    case DType::bf16:
      return few_rows<BrainBits>;
    case DType::f16:
      return few_rows<HalfBits>;
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

HWY_EXPORT(find_few_rows);

class FewRows final : public GemmProduct {
 public:
  FewRows(FewRowsFunction function, DType operand, DType result, const FewRowsExtents& e)
      : function_(function),
        extents_(e),
        size_(operand == DType::f64 ? 8 : 4),
        result_size_(dtype_size(result)) {
    const DType summed = operand == DType::f64 ? DType::f64 : DType::f32;
    if (operand != summed) read_ = find_loop_function(LoopOp::convert, operand, summed);
    if (result != summed) round_ = find_loop_function(LoopOp::convert, summed, result);
    const bool is_dense = e.a_k == 1 && e.a_row == e.k;
    copies_a_ = read_ != nullptr || !is_dense;
    operand_size_ = dtype_size(operand);
  }

  int64_t scratch_bytes() const override {
    return a_bytes() + sums_bytes() + in_lines(extents_.n * result_size_);
  }

  void run(const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    std::byte* const sums = scratch + a_bytes();
    std::memset(sums, 0, static_cast<size_t>(sums_bytes()));
    function_(extents_, copies_a_ ? copied(a, scratch) : a, b, sums);
    for (int64_t r = 0; r < extents_.rows; ++r)
      write_row(sums + r * sums_row(extents_) * size_, c + r * extents_.c_row * result_size_,
                sums + sums_bytes());
  }

 private:
  int64_t a_bytes() const { return copies_a_ ? in_lines(extents_.rows * extents_.k * size_) : 0; }
  int64_t sums_bytes() const { return 2 * in_lines(extents_.rows * sums_row(extents_) * size_); }

  // Rows of a side by side, in the type that is summed in.
  const std::byte* copied(const std::byte* a, std::byte* to) const {
    for (int64_t r = 0; r < extents_.rows; ++r) {
      const std::byte* const from = a + r * extents_.a_row * operand_size_;
      std::byte* const row = to + r * extents_.k * size_;
      const int64_t step = extents_.a_k * operand_size_;
      if (extents_.a_k != 1) {
        for (int64_t i = 0; i < extents_.k; ++i) read(row + i * size_, from + i * step, 1);
      } else {
        read(row, from, extents_.k);
      }
    }
    return to;
  }
  void read(std::byte* to, const std::byte* from, int64_t n) const {
    if (read_ != nullptr)
      read_(to, from, nullptr, nullptr, n, 0);
    else
      std::memcpy(to, from, static_cast<size_t>(n * size_));
  }

  void write_row(const std::byte* sums, std::byte* c, std::byte* room) const {
    const std::byte* from = sums;
    if (round_ != nullptr) {
      std::byte* const rounded = extents_.c_n == 1 ? c : room;
      round_(rounded, sums, nullptr, nullptr, extents_.n, 0);
      if (rounded == c) return;
      from = room;
    }
    if (extents_.c_n == 1) {
      std::memcpy(c, from, static_cast<size_t>(extents_.n * result_size_));
      return;
    }
    for (int64_t j = 0; j < extents_.n; ++j)
      std::memcpy(c + j * extents_.c_n * result_size_, from + j * result_size_,
                  static_cast<size_t>(result_size_));
  }

  FewRowsFunction function_;
  FewRowsExtents extents_;
  int64_t size_, operand_size_ = 4, result_size_;
  bool copies_a_ = false;
  LoopFunction read_ = nullptr, round_ = nullptr;  // nullptr: the types are the same
};

}  // namespace

std::unique_ptr<GemmProduct> few_rows_product(DType operand, DType result,
                                              const FewRowsExtents& extents) {
  const FewRowsFunction function = HWY_DYNAMIC_DISPATCH(find_few_rows)(operand);
  if (function == nullptr || (extents.b_n != 1 && extents.b_k != 1)) return nullptr;
  return std::make_unique<FewRows>(function, operand, result, extents);
}

}  // namespace gspmd
#endif
