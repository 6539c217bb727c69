// Systems side by side in strips of a few vectors, unknowns a few at a time: what they owe to those
// before is a product in registers. Blocks of unknowns keep what is read again in the caches.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/triangular_solve.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "gspmd/base/shape.h"
#include "kernels/transpose-inl.h"
#include "kernels/transpose_block.h"
#include "kernels/triangular_solve.h"
#include "kernels/triangular_tile-inl.h"

#ifndef GSPMD_TRIANGULAR_ROWS
#define GSPMD_TRIANGULAR_ROWS
namespace gspmd {
constexpr int64_t kTriangularRows = 6;  // by two vectors: as 16 registers hold
// Where rows begin in a packed matrix, kTriangularRows at a time: [unknown][row], up to the
// diagonal.
constexpr int64_t packed_rows(int64_t first) { return first * (first + kTriangularRows) / 2; }
// Systems beside each other: strips of `vectors` of them, [unknown][system], in the order in which
// `rows` unknowns, a multiple of kTriangularRows, are found. The first `direct_rows` unknowns of
// the first `direct_strips` strips are read from `in` and written to `out` instead, whose rows are
// `step` elements apart.
template <class T>
struct SystemStrips {
  T* data = nullptr;
  int64_t count = 0, vectors = 1, rows = 0;
  int64_t direct_rows = 0, direct_strips = 0;
  const T* in = nullptr;
  T* out = nullptr;
  int64_t step = 0;
};
template <class T>
using SolveStrips = void (*)(const T* packed, const SystemStrips<T>& strips);
// kTriangularRows rows, `row` elements apart, of `count` columns, `column` apart, as packed rows.
template <class T>
using PackRows = void (*)(const T* from, int64_t row, int64_t column, int64_t count, T* to);
template <class T>
struct TriangularFunctions {
  SolveStrips<T> solve;
  PackRows<T> pack;
  int64_t lanes, most_vectors;  // of a strip
};
struct TriangularTarget {
  TriangularFunctions<float> f32;
  TriangularFunctions<double> f64;
};
}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRows = kTriangularRows;
// Unknowns whose lines of a strip are in the first-level cache, their rows in the second.
constexpr int64_t kUnknowns = 40 * kRows;

// Where kRows unknowns of a strip are read, and where they are written too once they are found.
template <class T>
struct RowPlaces {
  const T* in;
  int64_t in_step;
  T* out;  // or nullptr
  int64_t out_step;
};

// The unknowns [row, row + kRows) of a strip without what they owe to those of [from, to); kLast:
// found, after what they owe to each other.
template <class T, int64_t kVectors, bool kLast>
void solve_rows(const T* packed, int64_t row, int64_t from, int64_t to, T* strip,
                const RowPlaces<T>& places) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = kTileLanes<T>;
  TileVector<T> x[kRows][kVectors];
  const T* const own = packed + packed_rows(row);
  const T* const factors = own + from * kRows;
  tile_product<T>(
      to - from, strip + from * kVectors * kLanes,
      [&](int64_t k, int64_t r) HWY_ATTR { return factors[k * kRows + r]; }, x);
  const T* const corner = own + row * kRows;
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {  // as a loop it would keep x in memory
    T* const line = strip + (row + r) * kVectors * kLanes;
    for (int64_t v = 0; v < kVectors; ++v)
      x[r][v] = hn::Sub(hn::LoadU(d, places.in + r * places.in_step + v * kLanes), x[r][v]);
    if constexpr (kLast) {
#pragma GCC unroll 8
      for (int64_t k = 0; k < r; ++k) {
        const auto factor = hn::Set(d, corner[k * kRows + r]);
        for (int64_t v = 0; v < kVectors; ++v) x[r][v] = hn::NegMulAdd(x[k][v], factor, x[r][v]);
      }
      const auto diagonal = hn::Set(d, corner[r * kRows + r]);
      for (int64_t v = 0; v < kVectors; ++v) x[r][v] = hn::Div(x[r][v], diagonal);
    }
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(x[r][v], d, line + v * kLanes);
  }
  if (!kLast || places.out == nullptr) return;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v)
      hn::StoreU(x[r][v], d, places.out + r * places.out_step + v * kLanes);
}

// Rows that are far apart are asked for while those before are computed.
template <class T, int64_t kVectors>
void fetch_rows(const RowPlaces<T>& places) {
  for (int64_t r = kRows; r < 2 * kRows; ++r)
    for (int64_t at = 0; at < kVectors * kTileLanes<T>; at += 64 / sizeof(T)) {
      __builtin_prefetch(places.in + r * places.in_step + at);
      __builtin_prefetch(places.out + r * places.out_step + at, 1);
    }
}

template <class T, int64_t kVectors>
void solve_strips_of(const T* packed, const SystemStrips<T>& strips) {
  constexpr int64_t kWidth = kVectors * kTileLanes<T>;
  for (int64_t first = 0; first < strips.rows; first += kUnknowns) {
    const int64_t last = std::min(strips.rows, first + kUnknowns);
    for (int64_t from = 0; from <= first; from += kUnknowns)
      for (int64_t s = 0; s < strips.count; ++s) {
        T* const strip = strips.data + s * strips.rows * kWidth;
        for (int64_t row = first; row < last; row += kRows) {
          RowPlaces<T> places{strip + row * kWidth, kWidth, nullptr, strips.step};
          if (s < strips.direct_strips && row < strips.direct_rows) {
            places.out = strips.out + row * strips.step + s * kWidth;
            if (from == 0) {
              places.in = strips.in + row * strips.step + s * kWidth;
              places.in_step = strips.step;
              if (row + kRows < strips.direct_rows) fetch_rows<T, kVectors>(places);
            }
          }
          if (from < first)
            solve_rows<T, kVectors, false>(packed, row, from, from + kUnknowns, strip, places);
          else
            solve_rows<T, kVectors, true>(packed, row, first, row, strip, places);
        }
      }
  }
}

constexpr int64_t kMostVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;  // as the registers hold

template <class T>
void solve_strips(const T* packed, const SystemStrips<T>& strips) {
  if constexpr (kMostVectors == 4)
    if (strips.vectors == 4) return solve_strips_of<T, 4>(packed, strips);
  if (strips.vectors == 2) return solve_strips_of<T, 2>(packed, strips);
  solve_strips_of<T, 1>(packed, strips);
}

template <class T>
void pack_rows(const T* from, int64_t row, int64_t column, int64_t count, T* to) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  // Blocks of 16 bytes square; the last rows again, where a block holds no more of them. What is
  // read next is asked for.
  constexpr int64_t kSide = 16 / sizeof(T), kLine = 64 / sizeof(T);
  const hn::FixedTag<T, kSide> d;
  for (; (column == 1 || column == -1) && k + kSide <= count; k += kSide)
    for (int64_t r = 0; r < kRows; r += kSide) {
      const int64_t first = std::min(r, kRows - kSide);
      const T* const block = from + first * row + k * column;
      T* const lines = to + k * kRows + first;
      if (k % kLine == 0)
        for (int64_t i = r; i < std::min(r + kSide, kRows); ++i)
          __builtin_prefetch(from + (kRows + i) * row + k * column);
      if (column == 1)
        transpose_small(block, row, lines, kRows);
      else
        transpose_small(block - (kSide - 1), row, lines + (kSide - 1) * kRows, -kRows);
    }
  for (; (row == 1 || row == -1) && k < count; ++k)
    for (int64_t r = 0; r < kRows; r += kSide) {
      const int64_t first = std::min(r, kRows - kSide);
      const T* const line = from + first * row + k * column;
      const auto x =
          row == 1 ? hn::LoadU(d, line) : hn::Reverse(d, hn::LoadU(d, line - (kSide - 1)));
      hn::StoreU(x, d, to + k * kRows + first);
    }
#endif
  for (; k < count; ++k)
    for (int64_t r = 0; r < kRows; ++r) to[k * kRows + r] = from[r * row + k * column];
}

template <class T>
TriangularFunctions<T> functions_of() {
  return {solve_strips<T>, pack_rows<T>, kTileLanes<T>, kMostVectors};
}

}  // namespace

TriangularTarget find_triangular() { return {functions_of<float>(), functions_of<double>()}; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_triangular);

constexpr int64_t kTile = kTriangularRows;
constexpr int64_t kMostParts = 8;

// The unknown t is row t of a strip, and of the operands from the front or from behind.
template <class T>
class TriangularRun {
 public:
  TriangularRun(const TriangularSolve& spec, const TriangularFunctions<T>& functions)
      : spec_(spec),
        // x op(a) = b is op(a)^T x^T = b^T.
        by_columns_(spec.transposed == spec.left_side),
        forward_(spec.lower != by_columns_),
        rows_(ceil_div(spec.n, kTile) * kTile),
        functions_(functions),
        vectors_(functions.most_vectors) {
    const int64_t lanes = functions.lanes;
    while (vectors_ > 1 && spec.systems <= vectors_ / 2 * lanes) vectors_ /= 2;
    width_ = vectors_ * lanes;
    strips_ = ceil_div(spec.systems, width_);
    // A few strips at a time, so that the rows of a block of unknowns are read for all of them.
    together_ = std::clamp<int64_t>(spec.matrices * strips_ / kMostParts, 1, 8);
    groups_ = ceil_div(strips_, together_);
  }

  int64_t units() const { return spec_.matrices * groups_; }
  int64_t packed_size() const { return packed_rows(rows_); }
  int64_t strips_size() const { return rows_ * width_ * together_; }

  // Units [first, last): groups of strips of matrices. `shared`: all packed matrices, or nullptr.
  void run(const KernelArgs& args, const T* shared, int64_t first, int64_t last) const {
    T* const own = reinterpret_cast<T*>(args.scratch) + strips_size();
    int64_t packed = -1;
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t matrix = unit / groups_, from = unit % groups_ * together_ * width_;
      if (shared == nullptr && matrix != packed) {
        for (int64_t row = 0; row < rows_; row += kTile) pack(args, matrix, row, own);
        packed = matrix;
      }
      const int64_t systems = std::min(together_ * width_, spec_.systems - from);
      const int64_t at = matrix * spec_.n * spec_.systems + from * (spec_.left_side ? 1 : spec_.n);
      const T* const b = reinterpret_cast<const T*>(args.operands[1]) + at;
      T* const out = reinterpret_cast<T*>(args.results[0]) + at;
      SystemStrips<T> strips{reinterpret_cast<T*>(args.scratch), ceil_div(systems, width_),
                             vectors_, rows_};
      if (spec_.left_side) {
        strips.direct_rows = spec_.n / kTile * kTile;
        strips.direct_strips = systems / width_;
        strips.in = b + row_of(0) * spec_.systems;
        strips.out = out + row_of(0) * spec_.systems;
        strips.step = forward_ ? spec_.systems : -spec_.systems;
      }
      read_strips(b, systems, strips);
      functions_.solve(shared == nullptr ? own : shared + matrix * packed_size(), strips);
      write_strips(strips, systems, out);
    }
  }

  // Units [first, last) of kTile rows of matrices.
  int64_t pack_units() const { return spec_.matrices * rows_ / kTile; }
  void pack_shared(const KernelArgs& args, int64_t first, int64_t last) const {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t matrix = unit / (rows_ / kTile), row = unit % (rows_ / kTile) * kTile;
      pack(args, matrix, row, reinterpret_cast<T*>(args.shared) + matrix * packed_size());
    }
  }

 private:
  static constexpr int64_t kSide = block_side(sizeof(T));

  int64_t row_of(int64_t unknown) const { return forward_ ? unknown : spec_.n - 1 - unknown; }

  // kTile rows; the diagonal of rows beyond the last is 1.
  void pack(const KernelArgs& args, int64_t matrix, int64_t first, T* packed) const {
    const T* const a = reinterpret_cast<const T*>(args.operands[0]) + matrix * spec_.n * spec_.n;
    T* const to = packed + packed_rows(first);
    const int64_t rows = std::min(kTile, spec_.n - first);
    pack_lines(a, first, rows, to);
    T* const corner = to + first * kTile;
    std::fill_n(corner, kTile * kTile, T(0));
    for (int64_t r = 0; r < kTile; ++r) {
      for (int64_t k = 0; k < r && r < rows; ++k)
        corner[k * kTile + r] = element(a, first + r, first + k);
      corner[r * kTile + r] =
          r >= rows || spec_.unit_diagonal ? T(1) : element(a, first + r, first + r);
    }
  }
  T element(const T* a, int64_t row, int64_t column) const {
    const int64_t i = row_of(row), k = row_of(column);
    return a[by_columns_ ? k * spec_.n + i : i * spec_.n + k];
  }
  void pack_lines(const T* a, int64_t first, int64_t rows, T* to) const {
    const int64_t sign = forward_ ? 1 : -1;
    const int64_t step = sign * (by_columns_ ? 1 : spec_.n);
    const int64_t next = sign * (by_columns_ ? spec_.n : 1);
    const T* const from =
        a + row_of(first) * (by_columns_ ? 1 : spec_.n) + row_of(0) * (by_columns_ ? spec_.n : 1);
    if (rows == kTile) return functions_.pack(from, step, next, first, to);
    for (int64_t k = 0; k < first; ++k, to += kTile)
      for (int64_t r = 0; r < kTile; ++r) to[r] = r < rows ? from[k * next + r * step] : T(0);
  }

  // Neighbours, a line of the cache at a time where there are some.
  static void copy_line(const T* from, int64_t count, T* to) {
    int64_t at = 0;
    for (; at + kSide <= count; at += kSide) std::memcpy(to + at, from + at, kSide * sizeof(T));
    for (; at < count; ++at) to[at] = from[at];
  }
  // What is not read directly; zeros where b has no elements.
  void read_strips(const T* b, int64_t systems, const SystemStrips<T>& strips) const {
    for (int64_t s = 0; s < strips.count; ++s) {
      T* const strip = strips.data + s * rows_ * width_;
      const int64_t first = s * width_, count = std::min(width_, systems - first);
      std::fill_n(strip + spec_.n * width_, (rows_ - spec_.n) * width_, T(0));
      if (!spec_.left_side) {
        read_systems(b + first * spec_.n, count, strip);
        continue;
      }
      for (int64_t t = s < strips.direct_strips ? strips.direct_rows : 0; t < spec_.n; ++t) {
        copy_line(b + row_of(t) * spec_.systems + first, count, strip + t * width_);
        std::fill_n(strip + t * width_ + count, width_ - count, T(0));
      }
    }
  }
  void write_strips(const SystemStrips<T>& strips, int64_t systems, T* out) const {
    for (int64_t s = 0; s < strips.count; ++s) {
      const T* const strip = strips.data + s * rows_ * width_;
      const int64_t first = s * width_, count = std::min(width_, systems - first);
      if (!spec_.left_side) {
        write_systems(strip, count, out + first * spec_.n);
        continue;
      }
      for (int64_t t = s < strips.direct_strips ? strips.direct_rows : 0; t < spec_.n; ++t)
        copy_line(strip + t * width_, count, out + row_of(t) * spec_.systems + first);
    }
  }

  // Systems that are rows, in tiles that are turned around.
  static void turn(const T* from, int64_t from_row, T* to, int64_t to_row) {
    static const TransposeBlock block = transpose_block_function(sizeof(T));
    block(reinterpret_cast<const std::byte*>(from), from_row, reinterpret_cast<std::byte*>(to),
          to_row);
  }
  void read_systems(const T* b, int64_t systems, T* strip) const {
    alignas(64) T tile[kSide * kSide];
    for (int64_t s = 0; s < width_; s += kSide)
      for (int64_t i = 0; i < spec_.n; i += kSide) {
        const int64_t count = std::min(kSide, spec_.n - i), wide = std::min(kSide, width_ - s);
        if (s + kSide <= systems && count == kSide) {
          turn(b + s * spec_.n + i, spec_.n, tile, kSide);
        } else {
          for (int64_t c = 0; c < count; ++c)
            for (int64_t r = 0; r < wide; ++r)
              tile[c * kSide + r] = s + r < systems ? b[(s + r) * spec_.n + i + c] : T(0);
        }
        for (int64_t c = 0; c < count; ++c)
          copy_line(tile + c * kSide, wide, strip + row_of(i + c) * width_ + s);
      }
  }
  void write_systems(const T* strip, int64_t systems, T* out) const {
    alignas(64) T tile[kSide * kSide];
    for (int64_t s = 0; s < systems; s += kSide)
      for (int64_t i = 0; i < spec_.n; i += kSide) {
        const int64_t count = std::min(kSide, spec_.n - i), wide = std::min(kSide, systems - s);
        for (int64_t c = 0; c < count; ++c)
          copy_line(strip + row_of(i + c) * width_ + s, wide, tile + c * kSide);
        if (wide == kSide && count == kSide) {
          turn(tile, kSide, out + s * spec_.n + i, spec_.n);
          continue;
        }
        for (int64_t r = 0; r < wide; ++r)
          for (int64_t c = 0; c < count; ++c) out[(s + r) * spec_.n + i + c] = tile[c * kSide + r];
      }
  }

  TriangularSolve spec_;
  bool by_columns_, forward_;
  int64_t rows_;
  TriangularFunctions<T> functions_;
  int64_t vectors_, width_ = 0, strips_ = 0, together_ = 0, groups_ = 0;
};

template <class T>
PreparedKernel prepare_solve(const TriangularSolve& spec, const TriangularFunctions<T>& functions) {
  const TriangularRun<T> run(spec, functions);
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  const double operations = static_cast<double>(spec.matrices) * static_cast<double>(spec.systems) *
                            static_cast<double>(spec.n) * static_cast<double>(spec.n);
  PreparedKernel kernel;
  kernel.cost = 100 + operations / (kSize == 4 ? 100 : 50);
  if (operations > 1e5) kernel.parts = std::min(run.units(), kMostParts);
  // Parts that read the same matrix read one that was packed for all.
  const bool shares = kernel.parts > 1 && spec.matrices < kernel.parts;
  kernel.scratch_bytes = (run.strips_size() + (shares ? 0 : run.packed_size())) * kSize;
  if (shares) {
    kernel.shared_bytes = ceil_div(spec.matrices * run.packed_size() * kSize, 64) * 64;
    kernel.prepare_parts = std::min(run.pack_units(), kMostParts);
    kernel.prepare = [run, parts = kernel.prepare_parts](const KernelArgs& args) {
      run.pack_shared(args, args.part * run.pack_units() / parts,
                      (args.part + 1) * run.pack_units() / parts);
    };
  }
  kernel.run = [run, shares, parts = kernel.parts](const KernelArgs& args) {
    run.run(args, shares ? reinterpret_cast<const T*>(args.shared) : nullptr,
            args.part * run.units() / parts, (args.part + 1) * run.units() / parts);
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_triangular_solve(const TriangularSolve& spec) {
  constexpr int64_t kMostRows = 8192;
  if (spec.n < 1 || spec.n > kMostRows || spec.matrices < 1 || spec.systems < 1) return {};
  const TriangularTarget target = HWY_DYNAMIC_DISPATCH(find_triangular)();
  if (spec.dtype == DType::f32) return prepare_solve(spec, target.f32);
  if (spec.dtype == DType::f64) return prepare_solve(spec, target.f64);
  return {};
}

}  // namespace gspmd
#endif
