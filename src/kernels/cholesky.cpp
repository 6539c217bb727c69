// Rows lie in strips of a few vectors, columns go from left to right: what a block of columns owes
// to those before is a product in registers, one strip after the other.
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
#include "kernels/triangular_tile-inl.h"

#ifndef GSPMD_CHOLESKY_STRIPS
#define GSPMD_CHOLESKY_STRIPS
namespace gspmd {
// The lower triangle of a symmetric matrix of n rows: strips of `rows` of them, [column][row], up
// to their diagonal and `slack` columns beyond. Anything may stand above the diagonal and behind
// the last row: what comes of it stays there.
template <class T>
struct RowStrips {
  T* data;
  int64_t n, rows, slack;

  int64_t count() const { return ceil_div(n, rows); }
  int64_t columns(int64_t strip) const { return (strip + 1) * rows + slack; }
  int64_t begin(int64_t strip) const {
    return rows * (rows * strip * (strip + 1) / 2 + slack * strip);
  }
  T* at(int64_t row, int64_t column) const {
    return data + begin(row / rows) + column * rows + row % rows;
  }
};
// The lines of a result, and of the triangle that is read next, a few at a time.
template <class T>
struct MatrixAhead {
  const T* in = nullptr;  // or there is none
  T* out = nullptr;       // or none is asked for
  int64_t n = 0;
  bool lower = true;
  int64_t row = 0, at = 0;

  void fetch() {
    constexpr int64_t kLine = 64 / sizeof(T);
    for (int64_t i = 0; i < 8 && row < n; ++i) {
      const int64_t place = row * n + at;
      __builtin_prefetch(out + place, 1);
      if (in != nullptr && (lower ? at <= row : at + kLine > row)) __builtin_prefetch(in + place);
      at += kLine;
      if (at >= n) at = 0, ++row;
    }
  }
};
enum class Factorized : uint8_t { yes, no, inexactly };
// a = l l^T in place; `diagonal`: of a, n + 1 elements apart.
template <class T>
using Factorize = Factorized (*)(const RowStrips<T>& a, const T* diagonal, MatrixAhead<T> ahead);
struct CholeskyFunctions {
  Factorize<float> f32;
  Factorize<double> f64;
  int64_t f32_rows, f64_rows, slack;
};
}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A block of registers: columns by vectors of rows (gemm_pack-inl.h); strips are no narrower than
// blocks that are transposed.
constexpr int64_t kColumns = HWY_TARGET == HWY_AVX3 ? 8 : 6;
template <class T>
constexpr int64_t kStripVectorsOf = std::max<int64_t>(2, block_side(sizeof(T)) / kTileLanes<T>);
// Columns whose products with all before are taken off first, and how many of those at a time: a
// strip of them is in the first-level cache, what it is multiplied by in the second.
constexpr int64_t kPanel = 96, kDepth = 240;

template <class T>
constexpr int64_t kStrip = kStripVectorsOf<T>* kTileLanes<T>;

template <class T>
int64_t count_strips(const RowStrips<T>& a) {
  return ceil_div(a.n, kStrip<T>);
}

// Of kColumns columns.
template <class T>
struct ColumnBlock {
  // The rows whose diagonal they have, or the last one.
  void take_rows(const RowStrips<T>& a, int64_t column) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const int64_t row = std::min(column + c, count_strips(a) * kStrip<T> - 1);
      rows[c] = a.data + a.begin(row / kStrip<T>) + row % kStrip<T>;
    }
  }

  T* rows[kColumns];
  T corner[kColumns][kColumns];  // rows of l on the diagonal, to it
  T inverse[kColumns];           // 1 / the diagonal
};

// A strip's part of a block of columns without what it owes to columns [from, to); kLast: part of
// l, after what they owe to each other.
template <class T, bool kLast>
void finish_strip(const RowStrips<T>& a, int64_t strip, int64_t column, int64_t from, int64_t to,
                  const ColumnBlock<T>& block) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = kTileLanes<T>, kVectors = kStripVectorsOf<T>;
  TileVector<T> x[kColumns][kVectors];
  const T* own[kColumns];
  for (int64_t c = 0; c < kColumns; ++c) own[c] = block.rows[c] + from * kStrip<T>;
  T* const lines = a.data + a.begin(strip);
  tile_product<T>(
      to - from, lines + from * kStrip<T>,
      [&](int64_t k, int64_t c) HWY_ATTR { return own[c][k * kStrip<T>]; }, x);
#pragma GCC unroll 8
  for (int64_t c = 0; c < kColumns; ++c) {  // as a loop it would keep x in memory
    T* const line = lines + (column + c) * kStrip<T>;
    for (int64_t v = 0; v < kVectors; ++v)
      x[c][v] = hn::Sub(hn::LoadU(d, line + v * kLanes), x[c][v]);
    if constexpr (kLast) {
#pragma GCC unroll 8
      for (int64_t k = 0; k < c; ++k) {
        const auto factor = hn::Set(d, block.corner[c][k]);
        for (int64_t v = 0; v < kVectors; ++v) x[c][v] = hn::NegMulAdd(x[k][v], factor, x[c][v]);
      }
      const auto inverse = hn::Set(d, block.inverse[c]);
      for (int64_t v = 0; v < kVectors; ++v) x[c][v] = hn::Mul(x[c][v], inverse);
    }
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(x[c][v], d, line + v * kLanes);
  }
}

// The square block on the diagonal, in f64; zeros where there is no column.
template <class T>
Factorized factorize_block(const RowStrips<T>& a, int64_t column, const T* diagonal,
                           ColumnBlock<T>& block) {
  const int64_t count = std::min(kColumns, a.n - column);
  double l[kColumns][kColumns];
  if (count < kColumns) {
    std::fill_n(&block.corner[0][0], kColumns * kColumns, T(0));
    std::fill_n(block.inverse, kColumns, T(0));
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kColumns; ++i)
#pragma GCC unroll 8
    for (int64_t j = 0; j <= i; ++j)
      l[i][j] = i < count ? static_cast<double>(block.rows[i][(column + j) * kStrip<T>]) : 0;
#pragma GCC unroll 8
  for (int64_t j = 0; j < kColumns; ++j) {
    if (j >= count) break;
    const double square = l[j][j];
    // f32 keeps too few digits of what is left of a small fraction.
    if constexpr (sizeof(T) == sizeof(float)) {
      constexpr double kLeast = 1.0 / 64;
      if (j < count && !(square > kLeast * static_cast<double>(diagonal[(column + j) * (a.n + 1)])))
        return Factorized::inexactly;
    }
    if (!(square > 0)) return Factorized::no;
    const double root = std::sqrt(square), inverse = root * (1 / square);  // neither waits
    block.inverse[j] = static_cast<T>(inverse);
    block.corner[j][j] = static_cast<T>(root);
#pragma GCC unroll 8
    for (int64_t i = j + 1; i < kColumns; ++i) {
      l[i][j] *= inverse;
      block.corner[i][j] = static_cast<T>(l[i][j]);
    }
#pragma GCC unroll 8
    for (int64_t i = j + 1; i < kColumns; ++i)
#pragma GCC unroll 8
      for (int64_t k = j + 1; k <= i; ++k) l[i][k] -= l[i][j] * l[k][j];
  }
  return Factorized::yes;
}

// A block of columns without what it owes to those before `from`.
template <class T>
Factorized finish_columns(const RowStrips<T>& a, int64_t from, int64_t column, const T* diagonal,
                          MatrixAhead<T>& ahead) {
  const int64_t first = column / kStrip<T>;  // some strips hold the diagonal
  const int64_t last = std::min((column + kColumns - 1) / kStrip<T>, count_strips(a) - 1);
  ColumnBlock<T> block;
  block.take_rows(a, column);
  for (int64_t strip = first; strip <= last && column > from; ++strip) {
    ahead.fetch();
    finish_strip<T, false>(a, strip, column, from, column, block);
  }
  if (const Factorized done = factorize_block(a, column, diagonal, block); done != Factorized::yes)
    return done;
  for (int64_t strip = first; strip <= last; ++strip)
    finish_strip<T, true>(a, strip, column, column, column, block);
  for (int64_t i = 0; i < std::min(kColumns, a.n - column); ++i)
    for (int64_t j = 0; j <= i; ++j) block.rows[i][(column + j) * kStrip<T>] = block.corner[i][j];
  for (int64_t strip = last + 1; strip < count_strips(a); ++strip) {
    ahead.fetch();
    finish_strip<T, true>(a, strip, column, from, column, block);
  }
  return Factorized::yes;
}

// The columns [panel, end) without what they owe to all before.
template <class T>
void begin_panel(const RowStrips<T>& a, int64_t panel, int64_t end, MatrixAhead<T>& ahead) {
  ColumnBlock<T> blocks[kPanel / kColumns];
  for (int64_t column = panel; column < end; column += kColumns)
    blocks[(column - panel) / kColumns].take_rows(a, column);
  for (int64_t strip = panel / kStrip<T>; strip < count_strips(a); ++strip)
    for (int64_t from = 0; from < panel; from += kDepth)
      for (int64_t column = panel; column < std::min(end, (strip + 1) * kStrip<T>);
           column += kColumns) {
        ahead.fetch();
        finish_strip<T, false>(a, strip, column, from, std::min(panel, from + kDepth),
                               blocks[(column - panel) / kColumns]);
      }
}

template <class T>
Factorized factorize(const RowStrips<T>& a, const T* diagonal, MatrixAhead<T> ahead) {
  for (int64_t panel = 0; panel < a.n; panel += kPanel) {
    const int64_t end = std::min(panel + kPanel, a.n);
    if (panel > 0) begin_panel(a, panel, end, ahead);
    for (int64_t column = panel; column < end; column += kColumns)
      if (const Factorized done = finish_columns(a, panel, column, diagonal, ahead);
          done != Factorized::yes)
        return done;
  }
  return Factorized::yes;
}

}  // namespace

CholeskyFunctions find_factorize() {
  return {factorize<float>, factorize<double>, kStrip<float>, kStrip<double>, kColumns};
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_factorize);

// Rows of the lower triangle in square blocks. block(i, j): all of it, with what is above the
// diagonal. element(i, j, x): of blocks that end with the matrix, x in its strip.
template <bool kWrites, class T, class Other, class Block, class Element>
void visit_triangle(const RowStrips<T>& a, int64_t first, const Other* matrix, Block&& block,
                    Element&& element) {
  constexpr int64_t kSide = block_side(sizeof(T));
  const int64_t end = std::min(a.n, first + kSide);
  for (int64_t j0 = 0; j0 < end; j0 += kSide) {
    // Of so many rows at once the processor fetches nothing ahead.
    for (int64_t i = end; i < std::min(a.n, end + kSide); ++i)
      __builtin_prefetch(matrix + i * a.n + j0, kWrites ? 1 : 0);
    if (end == first + kSide) {
      block(first, j0);
      continue;
    }
    T* const lines = a.at(first, j0);  // no block is in two strips
    for (int64_t i = first; i < end; ++i)
      for (int64_t j = j0; j < std::min(j0 + kSide, i + 1); ++j)
        element(i, j, lines[(j - j0) * a.rows + i - first]);
  }
}

template <class T>
void turn_block(const T* from, int64_t from_row, T* to, int64_t to_row) {
  static const TransposeBlock turn = transpose_block_function(sizeof(T));
  turn(reinterpret_cast<const std::byte*>(from), from_row, reinterpret_cast<std::byte*>(to),
       to_row);
}

template <class In, class T>
void read_triangle(bool lower, const In* in, const RowStrips<T>& a) {
  constexpr int64_t kSide = block_side(sizeof(T));
  if (!lower) {
    for (int64_t j = 0; j < a.n; ++j)
      for (int64_t i = j; i < a.n;) {
        const int64_t end = std::min(a.n, (i / a.rows + 1) * a.rows);
        T* const to = a.at(i, j);
        for (int64_t k = i; k < end; ++k) to[k - i] = static_cast<T>(in[j * a.n + k]);
        i = end;
      }
    return;
  }
  for (int64_t i0 = 0; i0 < a.n; i0 += kSide)
    visit_triangle<false>(
        a, i0, in,
        [&](int64_t i, int64_t j) {
          const In* const from = in + i * a.n + j;
          if constexpr (std::is_same_v<In, T>) {
            turn_block(from, a.n, a.at(i, j), a.rows);
          } else {
            T lines[kSide * kSide];
            for (int64_t r = 0; r < kSide; ++r)
              for (int64_t c = 0; c < kSide; ++c)
                lines[r * kSide + c] = static_cast<T>(from[r * a.n + c]);
            turn_block(lines, kSide, a.at(i, j), a.rows);
          }
        },
        [&](int64_t i, int64_t j, T& x) { x = static_cast<T>(in[i * a.n + j]); });
}

template <class T, class Out>
void write_triangle(bool lower, const RowStrips<T>& a, Out* out) {
  constexpr int64_t kSide = block_side(sizeof(T));
  if (!lower) {
    for (int64_t j = 0; j < a.n; ++j) {
      std::fill_n(out + j * a.n, j, Out(0));
      for (int64_t i = j; i < a.n;) {
        const int64_t end = std::min(a.n, (i / a.rows + 1) * a.rows);
        const T* const from = a.at(i, j);
        for (int64_t k = i; k < end; ++k) out[j * a.n + k] = static_cast<Out>(from[k - i]);
        i = end;
      }
    }
    return;
  }
  for (int64_t i0 = 0; i0 < a.n; i0 += kSide) {
    visit_triangle<true>(
        a, i0, out,
        [&](int64_t i, int64_t j) {
          Out* const to = out + i * a.n + j;
          if constexpr (std::is_same_v<Out, T>) {
            turn_block(static_cast<const T*>(a.at(i, j)), a.rows, to, a.n);
          } else {
            T lines[kSide * kSide];
            turn_block(static_cast<const T*>(a.at(i, j)), a.rows, lines, kSide);
            for (int64_t r = 0; r < kSide; ++r)
              for (int64_t c = 0; c < kSide; ++c)
                to[r * a.n + c] = static_cast<Out>(lines[r * kSide + c]);
          }
        },
        [&](int64_t i, int64_t j, T x) { out[i * a.n + j] = static_cast<Out>(x); });
    for (int64_t i = i0; i < std::min(a.n, i0 + kSide); ++i)
      std::fill_n(out + i * a.n + i + 1, a.n - i - 1, Out(0));
  }
}

template <class T>
Factorized run_matrix(const Cholesky& spec, Factorize<double> factorize, const T* in,
                      const RowStrips<double>& a, T* out) {
  read_triangle(spec.lower, in, a);
  const Factorized done = factorize(a, nullptr, {});
  if (done == Factorized::yes)
    write_triangle(spec.lower, a, out);
  else
    std::fill_n(out, spec.n * spec.n, std::numeric_limits<T>::quiet_NaN());
  return done;
}

bool run_quickly(const Cholesky& spec, Factorize<float> factorize, const float* in,
                 const RowStrips<float>& a, float* out, bool more) {
  read_triangle(spec.lower, in, a);
  MatrixAhead<float> ahead;
  constexpr int64_t kLeastAhead = 32, kMostAhead = 256;  // all of it is in the second-level cache
  if (spec.n >= kLeastAhead && spec.n <= kMostAhead)
    ahead = {more ? in + spec.n * spec.n : nullptr, out, spec.n, spec.lower};
  if (factorize(a, in, ahead) != Factorized::yes) return false;
  write_triangle(spec.lower, a, out);
  return true;
}

}  // namespace

PreparedKernel prepare_cholesky(const Cholesky& spec) {
  if (spec.dtype != DType::f32 && spec.dtype != DType::f64) return {};
  constexpr int64_t kMostRows = 8192;
  if (spec.n < 1 || spec.n > kMostRows) return {};
  const CholeskyFunctions functions = HWY_DYNAMIC_DISPATCH(find_factorize)();
  const RowStrips<double> wide{nullptr, spec.n, functions.f64_rows, functions.slack};
  const RowStrips<float> narrow{nullptr, spec.n, functions.f32_rows, functions.slack};
  const double operations = static_cast<double>(spec.matrices) * static_cast<double>(spec.n) *
                            static_cast<double>(spec.n) * static_cast<double>(spec.n) / 3;
  PreparedKernel kernel;
  kernel.cost = 100 + operations / (spec.dtype == DType::f32 ? 60 : 30);
  kernel.parts = operations > 1e5 ? std::clamp<int64_t>(spec.matrices, 1, 8) : 1;
  kernel.scratch_bytes =
      std::max(wide.begin(wide.count()) * static_cast<int64_t>(sizeof(double)),
               narrow.begin(narrow.count()) * static_cast<int64_t>(sizeof(float)));
  kernel.run = [spec, wide, narrow, functions, parts = kernel.parts](const KernelArgs& args) {
    RowStrips<double> a = wide;
    RowStrips<float> quick = narrow;
    a.data = reinterpret_cast<double*>(args.scratch);
    quick.data = reinterpret_cast<float*>(args.scratch);
    const int64_t first = args.part * spec.matrices / parts;
    for (int64_t m = first; m < (args.part + 1) * spec.matrices / parts; ++m) {
      const int64_t at = m * spec.n * spec.n;
      if (spec.dtype == DType::f32) {
        const auto* const in = reinterpret_cast<const float*>(args.operands[0]) + at;
        auto* const out = reinterpret_cast<float*>(args.results[0]) + at;
        if (!run_quickly(spec, functions.f32, in, quick, out,
                         m + 1 < (args.part + 1) * spec.matrices / parts))
          run_matrix(spec, functions.f64, in, a, out);
      } else {
        run_matrix(spec, functions.f64, reinterpret_cast<const double*>(args.operands[0]) + at, a,
                   reinterpret_cast<double*>(args.results[0]) + at);
      }
    }
  };
  return kernel;
}

}  // namespace gspmd
#endif
