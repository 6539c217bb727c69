// Columns from left to right, kColumns at a time: what they owe to all columns before is taken off
// in registers, one vector of rows after the other.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cholesky.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gspmd/base/shape.h"
#include "kernels/cholesky.h"
#include "kernels/transpose_block.h"

#ifndef GSPMD_CHOLESKY_COLUMNS
#define GSPMD_CHOLESKY_COLUMNS
namespace gspmd {
// The lower triangle of a symmetric matrix, columns `step` apart, of a multiple of kColumns rows
// and columns with zeros where there are none; becomes l. False: it is not positive definite.
struct ColumnMatrix {
  double* data;
  int64_t n, step;
};
using Factorize = bool (*)(const ColumnMatrix& a);
constexpr int64_t kCholeskyColumns = 8;
}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kColumns = kCholeskyColumns;

// The columns from `column` on of kVectors vectors of rows from `row` on, without what they owe to
// columns before; kSolve: and to each other, in units of the diagonal.
template <int64_t kVectors, bool kSolve>
void finish_rows(const ColumnMatrix& a, int64_t row, int64_t column, const double* inverse) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> x[kVectors][kColumns];
  double* const at = a.data + column * a.step + row;
  for (int64_t v = 0; v < kVectors; ++v)
    for (int64_t c = 0; c < kColumns; ++c) x[v][c] = hn::LoadU(d, at + c * a.step + v * lanes);
  for (int64_t k = 0; k < column; ++k) {
    const double* const before = a.data + k * a.step;
    hn::Vec<decltype(d)> rows[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) rows[v] = hn::LoadU(d, before + row + v * lanes);
    for (int64_t c = 0; c < kColumns; ++c) {
      const auto own = hn::Set(d, before[column + c]);
      for (int64_t v = 0; v < kVectors; ++v) x[v][c] = hn::NegMulAdd(rows[v], own, x[v][c]);
    }
  }
  if constexpr (kSolve) {
    for (int64_t c = 0; c < kColumns; ++c) {
      for (int64_t k = 0; k < c; ++k) {
        const auto own = hn::Set(d, a.data[(column + k) * a.step + column + c]);
        for (int64_t v = 0; v < kVectors; ++v) x[v][c] = hn::NegMulAdd(x[v][k], own, x[v][c]);
      }
      for (int64_t v = 0; v < kVectors; ++v) x[v][c] = hn::Mul(x[v][c], hn::Set(d, inverse[c]));
    }
  }
  for (int64_t v = 0; v < kVectors; ++v)
    for (int64_t c = 0; c < kColumns; ++c) hn::StoreU(x[v][c], d, at + c * a.step + v * lanes);
}

// The square block on the diagonal.
bool factorize_block(const ColumnMatrix& a, int64_t column, double* inverse) {
  const hn::CappedTag<double, 1> one;
  const auto element = [&](int64_t i, int64_t j) -> double& {
    return a.data[(column + j) * a.step + column + i];
  };
  const auto less = [&](int64_t i, int64_t j) HWY_ATTR {  // what it owes to columns of the block
    auto x = hn::Set(one, element(i, j));
    for (int64_t k = 0; k < j; ++k)
      x = hn::NegMulAdd(hn::Set(one, element(i, k)), hn::Set(one, element(j, k)), x);
    return hn::GetLane(x);
  };
  std::fill_n(inverse, kColumns, 0.0);
  for (int64_t j = 0; j < std::min(kColumns, a.n - column); ++j) {
    const double square = less(j, j);
    if (!(square > 0)) return false;
    element(j, j) = std::sqrt(square);
    inverse[j] = 1 / element(j, j);
    for (int64_t i = j + 1; i < kColumns; ++i) element(i, j) = less(i, j) * inverse[j];
  }
  return true;
}

bool factorize(const ColumnMatrix& a) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>()));
  constexpr int64_t kVectors = HWY_TARGET == HWY_AVX3 ? 2 : 1;  // as the registers hold
  const int64_t rows = ceil_div(a.n, kColumns) * kColumns;
  double inverse[kColumns];
  for (int64_t column = 0; column < a.n; column += kColumns) {
    for (int64_t row = column; row < column + kColumns; row += lanes)
      finish_rows<1, false>(a, row, column, inverse);
    if (!factorize_block(a, column, inverse)) return false;
    int64_t row = column + kColumns;
    for (; row + kVectors * lanes <= rows; row += kVectors * lanes)
      finish_rows<kVectors, true>(a, row, column, inverse);
    for (; row < rows; row += lanes) finish_rows<1, true>(a, row, column, inverse);
  }
  return true;
}

}  // namespace

Factorize find_factorize() { return factorize; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_factorize);

constexpr int64_t kTile = kCholeskyColumns;

// Rows of the lower triangle as columns and back, in square tiles. f(row, first column, count,
// line) fills or reads the `count` elements of a line of a tile that are in the triangle.
template <bool kToColumns, class F>
void turn_triangle(const ColumnMatrix& a, F&& f) {
  const TransposeBlock turn = transpose_block_function(sizeof(double));
  double tile[kTile * kTile];
  auto* const lines = reinterpret_cast<std::byte*>(tile);
  for (int64_t i0 = 0; i0 < a.n; i0 += kTile)
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      auto* const columns = reinterpret_cast<std::byte*>(a.data + j0 * a.step + i0);
      if constexpr (kToColumns)
        std::fill_n(tile, kTile * kTile, 0.0);
      else
        turn(columns, a.step, lines, kTile);
      for (int64_t i = i0; i < std::min(a.n, i0 + kTile); ++i)
        f(i, j0, std::min(kTile, i + 1 - j0), tile + (i - i0) * kTile);
      if constexpr (kToColumns) turn(lines, kTile, columns, a.step);
    }
}

template <class T>
void read_triangle(bool lower, const T* in, const ColumnMatrix& a) {
  if (lower) {
    turn_triangle<true>(a, [&](int64_t i, int64_t first, int64_t count, double* line) {
      for (int64_t c = 0; c < count; ++c) line[c] = static_cast<double>(in[i * a.n + first + c]);
    });
    return;
  }
  std::fill_n(a.data, ceil_div(a.n, kTile) * kTile * a.step, 0.0);
  for (int64_t j = 0; j < a.n; ++j)
    for (int64_t i = j; i < a.n; ++i) a.data[j * a.step + i] = static_cast<double>(in[j * a.n + i]);
}

template <class T>
void write_triangle(bool lower, const ColumnMatrix& a, T* out) {
  if (lower) {
    turn_triangle<false>(a, [&](int64_t i, int64_t first, int64_t count, const double* line) {
      for (int64_t c = 0; c < count; ++c) out[i * a.n + first + c] = static_cast<T>(line[c]);
    });
    for (int64_t i = 0; i < a.n; ++i) std::fill_n(out + i * a.n + i + 1, a.n - i - 1, T(0));
    return;
  }
  for (int64_t j = 0; j < a.n; ++j) {
    std::fill_n(out + j * a.n, j, T(0));
    for (int64_t i = j; i < a.n; ++i) out[j * a.n + i] = static_cast<T>(a.data[j * a.step + i]);
  }
}

template <class T>
void run_matrix(const Cholesky& spec, Factorize factorize, const T* in, const ColumnMatrix& a,
                T* out) {
  read_triangle(spec.lower, in, a);
  if (factorize(a))
    write_triangle(spec.lower, a, out);
  else
    std::fill_n(out, spec.n * spec.n, std::numeric_limits<T>::quiet_NaN());
}

}  // namespace

PreparedKernel prepare_cholesky(const Cholesky& spec) {
  if (spec.dtype != DType::f32 && spec.dtype != DType::f64) return {};
  constexpr int64_t kMostRows = 8192;
  if (spec.n < 1 || spec.n > kMostRows) return {};
  const int64_t columns = ceil_div(spec.n, kCholeskyColumns) * kCholeskyColumns;
  // An odd number of cache lines: columns do not throw each other out.
  const int64_t step = columns / kCholeskyColumns % 2 == 0 ? columns + kCholeskyColumns : columns;
  const double operations = static_cast<double>(spec.matrices) * static_cast<double>(spec.n) *
                            static_cast<double>(spec.n) * static_cast<double>(spec.n) / 3;
  PreparedKernel kernel;
  kernel.cost = 100 + operations / 30;
  kernel.parts = operations > 1e5 ? std::clamp<int64_t>(spec.matrices, 1, 8) : 1;
  kernel.scratch_bytes = columns * step * static_cast<int64_t>(sizeof(double));
  kernel.run = [spec, step, parts = kernel.parts,
                factorize = HWY_DYNAMIC_DISPATCH(find_factorize)()](const KernelArgs& args) {
    const ColumnMatrix a{reinterpret_cast<double*>(args.scratch), spec.n, step};
    const auto run = [&]<class T>(const T* in, T* out) {
      const int64_t first = args.part * spec.matrices / parts;
      for (int64_t m = first; m < (args.part + 1) * spec.matrices / parts; ++m)
        run_matrix(spec, factorize, in + m * spec.n * spec.n, a, out + m * spec.n * spec.n);
    };
    if (spec.dtype == DType::f32)
      run(reinterpret_cast<const float*>(args.operands[0]),
          reinterpret_cast<float*>(args.results[0]));
    else
      run(reinterpret_cast<const double*>(args.operands[0]),
          reinterpret_cast<double*>(args.results[0]));
  };
  return kernel;
}

}  // namespace gspmd
#endif
