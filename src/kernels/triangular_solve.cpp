// Systems side by side in vectors, unknowns kRows at a time: what they owe to all unknowns before
// is taken off in registers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/triangular_solve.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>

#include "gspmd/base/shape.h"
#include "kernels/transpose_block.h"
#include "kernels/triangular_solve.h"

#ifndef GSPMD_TRIANGULAR_ROWS
#define GSPMD_TRIANGULAR_ROWS
namespace gspmd {
constexpr int64_t kTriangularRows = 8;
// Where kTriangularRows rows of a packed matrix begin: [unknown][row], up to the diagonal.
constexpr int64_t packed_rows(int64_t first) { return 4 * first * (first / kTriangularRows + 1); }
// Unknowns in the order in which they are found, `width` systems beside each other, become the
// solution; `blocks` of kTriangularRows.
using SolvePanel = void (*)(const double* packed, int64_t blocks, double* panel, int64_t width,
                            int64_t systems);
}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRows = kTriangularRows;

// Rows [first, first + kRows) of kVectors vectors of systems.
template <int64_t kVectors>
void solve_rows(const double* packed, int64_t first, double* panel, int64_t width) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> x[kVectors][kRows];
  double* const own = panel + first * width;
  for (int64_t v = 0; v < kVectors; ++v)
    for (int64_t r = 0; r < kRows; ++r) x[v][r] = hn::LoadU(d, own + r * width + v * lanes);
  for (int64_t k = 0; k < first; ++k) {
    hn::Vec<decltype(d)> found[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) found[v] = hn::LoadU(d, panel + k * width + v * lanes);
    for (int64_t r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, packed[k * kRows + r]);
      for (int64_t v = 0; v < kVectors; ++v) x[v][r] = hn::NegMulAdd(found[v], factor, x[v][r]);
    }
  }
  const double* const corner = packed + first * kRows;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < r; ++k) {
      const auto factor = hn::Set(d, corner[k * kRows + r]);
      for (int64_t v = 0; v < kVectors; ++v) x[v][r] = hn::NegMulAdd(x[v][k], factor, x[v][r]);
    }
    const auto diagonal = hn::Set(d, corner[r * kRows + r]);
    for (int64_t v = 0; v < kVectors; ++v) {
      x[v][r] = hn::Div(x[v][r], diagonal);
      hn::StoreU(x[v][r], d, own + r * width + v * lanes);
    }
  }
}

void solve_panel(const double* packed, int64_t blocks, double* panel, int64_t width,
                 int64_t systems) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>()));
  constexpr int64_t kVectors = HWY_TARGET == HWY_AVX3 ? 2 : 1;  // as the registers hold
  for (int64_t first = 0; first < blocks * kRows; first += kRows) {
    const double* const rows = packed + packed_rows(first);
    int64_t s = 0;
    for (; s + (kVectors - 1) * lanes < systems; s += kVectors * lanes)
      solve_rows<kVectors>(rows, first, panel + s, width);
    for (; s < systems; s += lanes) solve_rows<1>(rows, first, panel + s, width);
  }
}

}  // namespace

SolvePanel find_solve_panel() { return solve_panel; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_solve_panel);

constexpr int64_t kTile = kTriangularRows;
constexpr int64_t kLeastSystems = 16, kMostSystems = 64;  // of a panel

// The unknown t is row t of the panel, and of the operands from the front or from behind.
class TriangularRun {
 public:
  explicit TriangularRun(const TriangularSolve& spec)
      : spec_(spec),
        // x op(a) = b is op(a)^T x^T = b^T.
        by_columns_(spec.transposed == spec.left_side),
        forward_(spec.lower != by_columns_),
        blocks_(ceil_div(spec.n, kTile)),
        width_(kMostSystems) {
    const auto panels = [&] { return ceil_div(spec.systems, width_); };
    while (width_ > kLeastSystems && (spec.matrices * panels() < 8 || spec.systems <= width_ / 2))
      width_ /= 2;
    panels_ = panels();
  }

  int64_t units() const { return spec_.matrices * panels_; }
  int64_t packed_size() const { return packed_rows(blocks_ * kTile); }
  int64_t scratch_bytes() const {
    return (packed_size() + blocks_ * kTile * width_) * static_cast<int64_t>(sizeof(double));
  }

  // Units [first, last): panels of matrices.
  template <class T>
  void run(SolvePanel solve, const T* a, const T* b, T* out, double* scratch, int64_t first,
           int64_t last) const {
    double* const panel = scratch + packed_size();
    int64_t packed = -1;
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t matrix = unit / panels_, from = unit % panels_ * width_;
      const int64_t systems = std::min(width_, spec_.systems - from);
      if (matrix != packed) pack(a + matrix * spec_.n * spec_.n, scratch);
      packed = matrix;
      const int64_t at = matrix * spec_.n * spec_.systems + from * (spec_.left_side ? 1 : spec_.n);
      read_panel(b + at, systems, panel);
      solve(scratch, blocks_, panel, width_, systems);
      write_panel(panel, systems, out + at);
    }
  }

 private:
  int64_t row_of(int64_t unknown) const { return forward_ ? unknown : spec_.n - 1 - unknown; }

  // kTile rows at a time; the diagonal of rows beyond the last is 1.
  template <class T>
  void pack(const T* a, double* packed) const {
    for (int64_t first = 0; first < spec_.n; first += kTile) {
      double* const to = packed + packed_rows(first);
      const int64_t rows = std::min(kTile, spec_.n - first);
      if (by_columns_ || rows < kTile)
        pack_elements(a, first, rows, first, to);
      else
        pack_tiles(a, first, to);
      double* const corner = to + first * kTile;
      std::fill_n(corner, kTile * kTile, 0.0);
      for (int64_t r = 0; r < kTile; ++r) {
        for (int64_t k = 0; k < r && r < rows; ++k)
          corner[k * kTile + r] = element(a, first + r, first + k);
        corner[r * kTile + r] =
            r >= rows || spec_.unit_diagonal ? 1 : element(a, first + r, first + r);
      }
    }
  }
  template <class T>
  double element(const T* a, int64_t row, int64_t column) const {
    const int64_t i = row_of(row), k = row_of(column);
    return static_cast<double>(a[by_columns_ ? k * spec_.n + i : i * spec_.n + k]);
  }
  template <class T>
  void pack_elements(const T* a, int64_t first, int64_t rows, int64_t columns, double* to) const {
    const int64_t step = by_columns_ ? 1 : spec_.n;
    for (int64_t k = 0; k < columns; ++k, to += kTile) {
      const int64_t column = row_of(k) * (by_columns_ ? spec_.n : 1);
      const T* const from = a + column + row_of(first) * step;
      for (int64_t r = 0; r < kTile; ++r)
        to[r] = r < rows ? static_cast<double>(from[(forward_ ? r : -r) * step]) : 0;
    }
  }
  // Whole rows: tiles are turned around.
  template <class T>
  void pack_tiles(const T* a, int64_t first, double* to) const {
    double tile[kTile * kTile];
    for (int64_t k = 0; k < first; k += kTile) {
      for (int64_t r = 0; r < kTile; ++r)
        read_line(a + row_of(first + r) * spec_.n + row_of(k), kTile, tile + r * kTile);
      turn(tile, kTile, to + k * kTile, kTile);
    }
  }

  // Neighbours in the order of unknowns.
  template <class T>
  void read_line(const T* from, int64_t count, double* to) const {
    if (forward_)
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<double>(from[c]);
    else
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<double>(from[-c]);
  }
  template <class T>
  void write_line(const double* from, int64_t count, T* to) const {
    if (forward_)
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<T>(from[c]);
    else
      for (int64_t c = 0; c < count; ++c) to[-c] = static_cast<T>(from[c]);
  }
  static void turn(const double* from, int64_t from_row, double* to, int64_t to_row) {
    static const TransposeBlock block = transpose_block_function(sizeof(double));
    block(reinterpret_cast<const std::byte*>(from), from_row, reinterpret_cast<std::byte*>(to),
          to_row);
  }

  // Zeros where b has no elements.
  template <class T>
  void read_panel(const T* b, int64_t systems, double* panel) const {
    if (!spec_.left_side) return read_systems(b, systems, panel);
    for (int64_t t = 0; t < spec_.n; ++t) {
      const T* const from = b + row_of(t) * spec_.systems;
      double* const row = panel + t * width_;
      for (int64_t s = 0; s < systems; ++s) row[s] = static_cast<double>(from[s]);
      std::fill_n(row + systems, width_ - systems, 0.0);
    }
    std::fill_n(panel + spec_.n * width_, (blocks_ * kTile - spec_.n) * width_, 0.0);
  }
  template <class T>
  void write_panel(const double* panel, int64_t systems, T* out) const {
    if (!spec_.left_side) return write_systems(panel, systems, out);
    for (int64_t t = 0; t < spec_.n; ++t) {
      T* const to = out + row_of(t) * spec_.systems;
      const double* const row = panel + t * width_;
      for (int64_t s = 0; s < systems; ++s) to[s] = static_cast<T>(row[s]);
    }
  }

  // Systems that are rows, in tiles that are turned around.
  template <class T>
  void read_systems(const T* b, int64_t systems, double* panel) const {
    double tile[kTile * kTile];
    for (int64_t s = 0; s < width_; s += kTile)
      for (int64_t t = 0; t < spec_.n; t += kTile) {
        const int64_t count = std::min(kTile, spec_.n - t);
        std::fill_n(tile, kTile * kTile, 0.0);
        for (int64_t r = 0; r < std::min(kTile, systems - s); ++r)
          read_line(b + (s + r) * spec_.n + row_of(t), count, tile + r * kTile);
        turn(tile, kTile, panel + t * width_ + s, width_);
      }
  }
  template <class T>
  void write_systems(const double* panel, int64_t systems, T* out) const {
    double tile[kTile * kTile];
    for (int64_t s = 0; s < systems; s += kTile)
      for (int64_t t = 0; t < spec_.n; t += kTile) {
        turn(panel + t * width_ + s, width_, tile, kTile);
        for (int64_t r = 0; r < std::min(kTile, systems - s); ++r)
          write_line(tile + r * kTile, std::min(kTile, spec_.n - t),
                     out + (s + r) * spec_.n + row_of(t));
      }
  }

  TriangularSolve spec_;
  bool by_columns_, forward_;
  int64_t blocks_, width_, panels_ = 0;
};

}  // namespace

PreparedKernel prepare_triangular_solve(const TriangularSolve& spec) {
  if (spec.dtype != DType::f32 && spec.dtype != DType::f64) return {};
  constexpr int64_t kMostRows = 8192;
  if (spec.n < 1 || spec.n > kMostRows || spec.matrices < 1 || spec.systems < 1) return {};
  const TriangularRun run(spec);
  const double operations = static_cast<double>(spec.matrices) * static_cast<double>(spec.systems) *
                            static_cast<double>(spec.n) * static_cast<double>(spec.n);
  PreparedKernel kernel;
  kernel.cost = 100 + operations / 50;
  kernel.parts = operations > 1e5 ? std::min<int64_t>(run.units(), 8) : 1;
  kernel.scratch_bytes = run.scratch_bytes();
  kernel.run = [run, dtype = spec.dtype, parts = kernel.parts,
                solve = HWY_DYNAMIC_DISPATCH(find_solve_panel)()](const KernelArgs& args) {
    const auto solve_part = [&]<class T>(T* out) {
      run.run(solve, reinterpret_cast<const T*>(args.operands[0]),
              reinterpret_cast<const T*>(args.operands[1]), out,
              reinterpret_cast<double*>(args.scratch), args.part * run.units() / parts,
              (args.part + 1) * run.units() / parts);
    };
    if (dtype == DType::f32)
      solve_part(reinterpret_cast<float*>(args.results[0]));
    else
      solve_part(reinterpret_cast<double*>(args.results[0]));
  };
  return kernel;
}

}  // namespace gspmd
#endif
