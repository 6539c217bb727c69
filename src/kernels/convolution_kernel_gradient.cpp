// Gradients of kernels of convolutions where features are contiguous: for each tap a product of x,
// turned round, and the gradient g, over all positions. Blocks of registers are six features of x
// and a strip of columns of g; rows of positions are read where they lie, so that padding costs
// nothing and strides and taps only say where a row begins.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution_kernel_gradient.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "gspmd/base/shape.h"
#include "kernels/convolution_direct.h"

#ifndef GSPMD_KERNEL_GRADIENT_TYPES
#define GSPMD_KERNEL_GRADIENT_TYPES
namespace gspmd {

// Positions whose x and g stay in the second-level cache while all taps and features read them.
constexpr int64_t kChunkBytes = int64_t{640} << 10, kLeastChunk = 128, kMostChunk = 512;
constexpr int64_t kInPlaceBytes = 512;  // rows of g that are closer are not copied
constexpr int64_t kAllRuns = kMostChunk;

struct GradientFunctions {
  void (*run)(const KernelGradient& e, const GradientPart& part, const float* x, const float* g,
              float* c, float* scratch);
  int64_t lanes, strip;
};

// Positions of a row at one tap of the outer axes.
struct Run {
  const float *x, *g;
};

// Which positions of a row meet x at a tap of the last axis, and where that is in the row of x.
struct Met {
  int64_t first = 0, count = 0, at = 0;
};

inline Met met_by(const KernelGradient::Axis& axis, int64_t tap) {
  const int64_t shift = tap * axis.dilation - axis.pad;
  Met met;
  met.first = shift < 0 ? ceil_div(-shift, axis.stride) : 0;
  const int64_t room = axis.input - 1 - shift;
  const int64_t end = room < 0 ? 0 : std::min(axis.positions, room / axis.stride + 1);
  met.count = std::max<int64_t>(0, end - met.first);
  met.at = met.first * axis.stride + shift;
  return met;
}

inline int64_t rows_of_chunk(const KernelGradient& e, int64_t strip) {
  int64_t read = e.in;  // of x per position
  for (const KernelGradient::Axis& axis : e.axes) read *= std::min(axis.stride, axis.taps);
  const int64_t positions = std::clamp(kChunkBytes / 4 / (read + strip), kLeastChunk, kMostChunk);
  return std::max<int64_t>(1, positions / e.axes[2].positions);
}

}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

constexpr int64_t kBlockRows = 6;
constexpr int64_t kBlockVectors = HWY_MAX_BYTES == 64 ? 4 : 2;

int64_t lanes_of() { return static_cast<int64_t>(hn::Lanes(Tag())); }

// What a block of registers reads and writes. Steps from position to position.
struct BlockArgs {
  const Run* runs;
  int64_t run_count, positions;
  int64_t x_first, x_step, g_first, g_step;
  float* c;
  int64_t c_row;
};

// c[kRows, kVectors vectors] = or += the sum over all positions.
template <bool kAdd, int64_t kRows, int64_t kVectors>
void add_block(const BlockArgs& a) {
  const Tag d;
  const int64_t lanes = lanes_of();
  Vector sums[kRows][kVectors];
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::Zero(d);
      __builtin_prefetch(a.c + i * a.c_row + v * lanes, 1);
    }
  for (int64_t r = 0; r < a.run_count; ++r) {
    const float* HWY_RESTRICT x = a.runs[r].x + a.x_first;
    const float* HWY_RESTRICT g = a.runs[r].g + a.g_first;
    for (int64_t p = 0; p < a.positions; ++p, x += a.x_step, g += a.g_step) {
      Vector u[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) u[v] = hn::LoadU(d, g + v * lanes);
      for (int64_t i = 0; i < kRows; ++i) {
        const Vector f = hn::Set(d, x[i]);
        for (int64_t v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(f, u[v], sums[i][v]);
      }
    }
  }
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t v = 0; v < kVectors; ++v) {
      float* const to = a.c + i * a.c_row + v * lanes;
      if constexpr (kAdd) sums[i][v] = hn::Add(hn::LoadU(d, to), sums[i][v]);
      hn::StoreU(sums[i][v], d, to);
    }
}

using AddBlock = void (*)(const BlockArgs& a);

template <bool kAdd, int64_t kVectors>
AddBlock block_of_rows(int64_t rows) {
  switch (rows) {
    case 1:
      return add_block<kAdd, 1, kVectors>;
    case 2:
      return add_block<kAdd, 2, kVectors>;
    case 3:
      return add_block<kAdd, 3, kVectors>;
    case 4:
      return add_block<kAdd, 4, kVectors>;
    case 5:
      return add_block<kAdd, 5, kVectors>;
    default:
      return add_block<kAdd, 6, kVectors>;
  }
}

template <bool kAdd>
AddBlock block_of(int64_t rows, int64_t vectors) {
  if constexpr (kBlockVectors == 4) {
    if (vectors == 4) return block_of_rows<kAdd, 4>(rows);
    if (vectors == 3) return block_of_rows<kAdd, 3>(rows);
  }
  return vectors == 2 ? block_of_rows<kAdd, 2>(rows) : block_of_rows<kAdd, 1>(rows);
}

// A strip of columns: the last vector may be beyond them.
struct Strip {
  int64_t first, columns, vectors;
};

class Gradient {
 public:
  Gradient(const KernelGradient& e, const float* x, const float* g, float* c, float* scratch)
      : e_(e), last_(e.axes[2]), x_(x), g_(g), c_(c), packed_(scratch) {}

  void run(const GradientPart& part) {
    const int64_t lanes = lanes_of(), wide = kBlockVectors * lanes;
    if (part.first_row == part.last_row) return clear(part.first, part.last);
    const int64_t step = rows_of_chunk(e_, wide);
    for (int64_t row = part.first_row; row < part.last_row; row += step) {
      first_ = row;
      end_ = std::min(part.last_row, row + step);
      adds_ = row > part.first_row;
      for (int64_t o = part.first; o < part.last; o += wide) {
        const int64_t columns = std::min(wide, part.last - o);
        add_strip({o, columns, ceil_div(columns, lanes)});
      }
    }
  }

 private:
  // All taps of some columns.
  void clear(int64_t first, int64_t last) {
    for (int64_t t0 = 0; t0 < e_.axes[0].taps; ++t0)
      for (int64_t t1 = 0; t1 < e_.axes[1].taps; ++t1)
        for (int64_t t2 = 0; t2 < last_.taps; ++t2)
          clear_tap(tap_at(t0, t1) + t2 * last_.c_step + first, 0, e_.in, last - first);
  }

  float* tap_at(int64_t t0, int64_t t1) const {
    return c_ + t0 * e_.axes[0].c_step + t1 * e_.axes[1].c_step;
  }

  void clear_tap(float* c, int64_t first_row, int64_t rows, int64_t columns) {
    for (int64_t i = first_row; i < first_row + rows; ++i)
      std::memset(c + i * e_.c_row, 0, static_cast<size_t>(columns) * sizeof(float));
  }

  // Image and positions of a row.
  struct Row {
    int64_t image, p0, p1;
  };
  Row row_at(int64_t row) const {
    const int64_t n1 = e_.axes[1].positions, n0 = e_.axes[0].positions;
    return {row / n1 / n0, row / n1 % n0, row % n1};
  }
  const float* g_of(const Row& row) const {
    return g_ + row.image * e_.g_image + row.p0 * e_.axes[0].g_step + row.p1 * e_.axes[1].g_step;
  }

  // Rows of g where they lie, if they are near each other and whole vectors; else copied.
  void take_g(const Strip& strip) {
    const int64_t lanes = lanes_of(), wide = strip.vectors * lanes;
    is_packed_ = last_.g_step * 4 > kInPlaceBytes || strip.columns % lanes != 0;
    g_step_ = is_packed_ ? wide : last_.g_step;
    if (!is_packed_) return;
    float* to = packed_;
    const Tag d;
    for (int64_t r = first_; r < end_; ++r) {
      const float* from = g_of(row_at(r)) + strip.first;
      for (int64_t p = 0; p < last_.positions; ++p, from += last_.g_step, to += wide) {
        if (strip.columns == wide) {
          for (int64_t v = 0; v < wide; v += lanes) hn::Store(hn::LoadU(d, from + v), d, to + v);
        } else {
          std::copy_n(from, strip.columns, to);
          std::fill(to + strip.columns, to + wide, 0.0F);
        }
      }
    }
  }

  // The rows of the chunk that meet x at a tap of the outer axes.
  int64_t runs_at(int64_t t0, int64_t t1, const Strip& strip) {
    int64_t count = 0;
    for (int64_t r = first_; r < end_; ++r) {
      const Row row = row_at(r);
      const KernelGradient::Axis &a = e_.axes[0], &b = e_.axes[1];
      const int64_t i0 = row.p0 * a.stride + t0 * a.dilation - a.pad;
      const int64_t i1 = row.p1 * b.stride + t1 * b.dilation - b.pad;
      if (i0 < 0 || i0 >= a.input || i1 < 0 || i1 >= b.input) continue;
      Run& run = runs_[count++];
      run.x = x_ + row.image * e_.x_image + i0 * a.x_step + i1 * b.x_step;
      run.g =
          is_packed_ ? packed_ + (r - first_) * last_.positions * g_step_ : g_of(row) + strip.first;
    }
    return count;
  }

  void add_strip(const Strip& strip) {
    take_g(strip);
    for (int64_t t0 = 0; t0 < e_.axes[0].taps; ++t0)
      for (int64_t t1 = 0; t1 < e_.axes[1].taps; ++t1) {
        const int64_t runs = runs_at(t0, t1, strip);
        if (runs == 0 && adds_) continue;
        float* const c = tap_at(t0, t1) + strip.first;
        for (int64_t i = 0; i < e_.in; i += kBlockRows) add_features(strip, runs, i, c);
      }
  }

  // All taps of the last axis: what they read is the same but for the ends of rows.
  void add_features(const Strip& strip, int64_t runs, int64_t i, float* c) {
    const int64_t rows = std::min(kBlockRows, e_.in - i), wide = strip.vectors * lanes_of();
    alignas(64) float edge[kBlockRows * kBlockVectors * HWY_MAX_BYTES / sizeof(float)];
    const AddBlock write =
        adds_ ? block_of<true>(rows, strip.vectors) : block_of<false>(rows, strip.vectors);
    for (int64_t t = 0; t < last_.taps; ++t) {
      const Met met = met_by(last_, t);
      if (met.count == 0) {
        if (!adds_) clear_tap(c + t * last_.c_step, i, rows, strip.columns);
        continue;
      }
      BlockArgs args{runs_,
                     runs,
                     met.count,
                     met.at * last_.x_step + i,
                     last_.stride * last_.x_step,
                     met.first * g_step_,
                     g_step_,
                     c + t * last_.c_step + i * e_.c_row,
                     e_.c_row};
      if (strip.columns == wide) {
        write(args);
        continue;
      }
      float* const to = args.c;
      args.c = edge;
      args.c_row = wide;
      block_of<false>(rows, strip.vectors)(args);
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t j = 0; j < strip.columns; ++j) {
          float* const at = to + y * e_.c_row + j;
          *at = edge[y * wide + j] + (adds_ ? *at : 0.0F);
        }
    }
  }

  const KernelGradient& e_;
  const KernelGradient::Axis& last_;
  const float *x_, *g_;
  float *c_, *packed_;
  int64_t first_ = 0, end_ = 0;            // rows of the chunk
  bool is_packed_ = false, adds_ = false;  // to what chunks before it have written
  int64_t g_step_ = 0;
  Run runs_[kAllRuns];
};

void run_gradient(const KernelGradient& e, const GradientPart& part, const float* x, const float* g,
                  float* c, float* scratch) {
  Gradient(e, x, g, c, scratch).run(part);
}

}  // namespace

GradientFunctions find_kernel_gradient() {
  return {run_gradient, lanes_of(), kBlockVectors * lanes_of()};
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_kernel_gradient);

const GradientFunctions& functions() {
  static const GradientFunctions found = HWY_DYNAMIC_DISPATCH(find_kernel_gradient)();
  return found;
}

}  // namespace

int64_t direct_lanes() { return functions().lanes; }
int64_t gradient_strip() { return functions().strip; }

int64_t gradient_scratch_bytes(const KernelGradient& gradient) {
  const int64_t strip = gradient_strip();
  return rows_of_chunk(gradient, strip) * gradient.axes[2].positions * strip * 4;
}

void run_kernel_gradient(const KernelGradient& gradient, const GradientPart& part, const float* x,
                         const float* g, float* c, float* scratch) {
  functions().run(gradient, part, x, g, c, scratch);
}

}  // namespace gspmd
#endif
