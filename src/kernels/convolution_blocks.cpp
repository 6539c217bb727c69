// Convolutions where features are contiguous, as products of six positions, gathered tap by tap,
// and strips of the kernel that are packed panel by panel. A position that a tap leads outside of
// x, or between its elements, reads zeros; a tap that leads all six there is left out (the indirect
// convolution, arXiv:1907.02129). Positions that fall on the same places between the elements are
// computed together, so that gradients with stride leave out what is zero.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution_blocks.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <limits>
#include <numeric>

#include "gspmd/kernels/loop_program.h"
#include "kernels/convolution_direct.h"
#include "kernels/gemm_pack-inl.h"

#ifndef GSPMD_CONVOLUTION_BLOCKS_TYPES
#define GSPMD_CONVOLUTION_BLOCKS_TYPES
namespace gspmd {

constexpr int64_t kBlockPositions = 6;
constexpr int64_t kPanelSums = 2304;                 // taps times features of x
constexpr int64_t kPanelFeatures = 512;              // of x
constexpr int64_t kPanelBytes = int64_t{600} << 10;  // of strips beside each other
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min() / 4;
constexpr int64_t kMostTaps = kPanelSums / 16;  // of a panel
constexpr int64_t kPackingParts = 8;            // about, of a whole kernel

struct ConvolutionFunctions {
  void (*run)(const DirectConvolution& e, const ConvolutionPart& part, const float* x,
              const ConvolutionWeights& w, float* y, float* scratch);
  int64_t (*scratch)(const DirectConvolution& e);  // floats
  void (*pack)(const DirectConvolution& e, int64_t part, const float* w, float* packed);
  int64_t (*packed)(const DirectConvolution& e);  // floats
  int64_t (*packing_parts)(const DirectConvolution& e);
};

// Positions along an axis that fall on the same place between two elements of x: every `step`th.
struct PositionClass {
  int64_t first = 0, step = 1, count = 0;
};

inline int64_t classes_of(const DirectConvolution::Axis& a) {
  return a.spread / std::gcd(a.spread, a.stride);
}

inline PositionClass class_at(const DirectConvolution::Axis& a, int64_t which) {
  const int64_t step = classes_of(a);
  return {which, step, which < a.positions ? ceil_div(a.positions - which, step) : 0};
}

// One combination of classes of all axes.
struct BlockRange {
  std::array<PositionClass, kDirectAxes> classes;
  int64_t positions = 0, blocks = 0;  // of all images
};

template <class F>
void each_range(const DirectConvolution& e, F&& f) {
  BlockRange range;
  const auto& axes = e.axes;
  for (int64_t c0 = 0; c0 < classes_of(axes[0]); ++c0)
    for (int64_t c1 = 0; c1 < classes_of(axes[1]); ++c1)
      for (int64_t c2 = 0; c2 < classes_of(axes[2]); ++c2) {
        range.classes = {class_at(axes[0], c0), class_at(axes[1], c1), class_at(axes[2], c2)};
        range.positions = e.images;
        for (const PositionClass& c : range.classes) range.positions *= c.count;
        range.blocks = ceil_div(range.positions, kBlockPositions);
        f(range);
      }
}

}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// What the positions of a block read at one tap, and the strip of the kernel for it.
struct Segment {
  const float* x[kBlockPositions];
  int64_t w;  // floats from the begin of a packed strip
};

// y[6 positions, kVectors vectors] = or += the sum over all segments of `k` features.
template <bool kAdd, int64_t kVectors>
void convolve_block(const Segment* segments, int64_t count, int64_t k, const float* w,
                    float* const* y, int64_t column) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector sums[kBlockPositions][kVectors];
  for (int64_t i = 0; i < kBlockPositions; ++i)
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::Zero(d);
      __builtin_prefetch(y[i] + column + v * lanes, 1);
    }
  for (int64_t s = 0; s < count; ++s) {
    const float* const x0 = segments[s].x[0];
    const float* const x1 = segments[s].x[1];
    const float* const x2 = segments[s].x[2];
    const float* const x3 = segments[s].x[3];
    const float* const x4 = segments[s].x[4];
    const float* const x5 = segments[s].x[5];
    const float* HWY_RESTRICT from = w + segments[s].w;
    for (int64_t p = 0; p < k; ++p, from += kStripVectors * lanes) {
      Vector u[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) u[v] = hn::Load(d, from + v * lanes);
      const float f[kBlockPositions] = {x0[p], x1[p], x2[p], x3[p], x4[p], x5[p]};
      for (int64_t i = 0; i < kBlockPositions; ++i) {
        const Vector r = hn::Set(d, f[i]);
        for (int64_t v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(r, u[v], sums[i][v]);
      }
    }
  }
  for (int64_t i = 0; i < kBlockPositions; ++i)
    for (int64_t v = 0; v < kVectors; ++v) {
      float* const to = y[i] + column + v * lanes;
      if constexpr (kAdd) sums[i][v] = hn::Add(hn::LoadU(d, to), sums[i][v]);
      hn::StoreU(sums[i][v], d, to);
    }
}

using ConvolveBlock = void (*)(const Segment* segments, int64_t count, int64_t k, const float* w,
                               float* const* y, int64_t column);

template <bool kAdd>
ConvolveBlock block_of(int64_t vectors) {
  if constexpr (kStripVectors == 4) {
    if (vectors == 4) return convolve_block<kAdd, 4>;
    if (vectors == 3) return convolve_block<kAdd, 3>;
  }
  return vectors == 2 ? convolve_block<kAdd, 2> : convolve_block<kAdd, 1>;
}

// Sizes of panels: features of x, taps, and columns beside each other.
struct Panels {
  int64_t features, taps, columns;
};

int64_t taps_of(const DirectConvolution& e) {
  return e.axes[0].taps * e.axes[1].taps * e.axes[2].taps;
}

Panels panels_of(const DirectConvolution& e) {
  const int64_t taps = taps_of(e);
  Panels panels;
  panels.features = ceil_div(e.in, ceil_div(e.in, kPanelFeatures));
  const int64_t most = std::clamp<int64_t>(kPanelSums / panels.features, 1, kMostTaps);
  panels.taps = ceil_div(taps, ceil_div(taps, most));
  const int64_t strip = panels.taps * panels.features * strip_columns() * 4;
  panels.columns = std::max<int64_t>(1, kPanelBytes / strip) * strip_columns();
  return panels;
}

// Floats of a packed strip.
int64_t strip_floats(const Panels& panels) { return strip_of_b(panels.taps * panels.features); }

// Where a panel is in a kernel that is packed as a whole: by features, then taps, then columns.
struct PanelAt {
  int64_t feature = 0, features = 0, tap = 0, taps = 0;  // which, and how many
};

PanelAt panel_at(const DirectConvolution& e, const Panels& panels, int64_t panel) {
  const int64_t taps = taps_of(e), across = ceil_div(taps, panels.taps);
  PanelAt at;
  at.feature = panel / across * panels.features;
  at.features = std::min(panels.features, e.in - at.feature);
  at.tap = panel % across * panels.taps;
  at.taps = std::min(panels.taps, taps - at.tap);
  return at;
}

int64_t panel_count(const DirectConvolution& e, const Panels& panels) {
  return ceil_div(e.in, panels.features) * ceil_div(taps_of(e), panels.taps);
}

int64_t strips_of(const DirectConvolution& e) { return ceil_div(e.out, strip_columns()); }

int64_t packed_floats_of(const DirectConvolution& e) {
  const Panels panels = panels_of(e);
  return panel_count(e, panels) * strips_of(e) * strip_floats(panels);
}

// Parts of each panel, so that there are enough.
int64_t packing_cuts(const DirectConvolution& e) {
  const int64_t panels = panel_count(e, panels_of(e));
  return std::min(ceil_div(kPackingParts, panels), strips_of(e));
}

int64_t packing_parts_of(const DirectConvolution& e) {
  return panel_count(e, panels_of(e)) * packing_cuts(e);
}

struct Tap {
  int64_t at[kDirectAxes];
};

Tap tap_at(const DirectConvolution& e, int64_t tap) {
  const int64_t n2 = e.axes[2].taps, n1 = e.axes[1].taps;
  return {{tap / n2 / n1, tap / n2 % n1, tap % n2}};
}

// Strips of a panel, of these columns.
void pack_strips(const DirectConvolution& e, const Panels& panels, const PanelAt& panel,
                 int64_t column, int64_t columns, const float* w, float* to) {
  PackedExtents extents;
  extents.b_k = e.w_in;
  extents.b_n = e.w_out;
  const int64_t wide = strip_columns();
  for (int64_t t = 0; t < panel.taps; ++t) {
    const Tap tap = tap_at(e, panel.tap + t);
    const float* from = w + e.w_first + panel.feature * e.w_in + column * e.w_out;
    for (size_t a = 0; a < kDirectAxes; ++a) from += tap.at[a] * e.axes[a].w_step;
    pack_b(extents, from, panel.features, columns, {wide, strip_floats(panels)},
           to + t * panel.features * wide);
  }
}

void pack_kernel(const DirectConvolution& e, int64_t part, const float* w, float* packed) {
  const Panels panels = panels_of(e);
  const int64_t cuts = packing_cuts(e), strips = strips_of(e), wide = strip_columns();
  const int64_t panel = part / cuts, cut = part % cuts;
  const int64_t first = cut * strips / cuts, last = (cut + 1) * strips / cuts;
  pack_strips(e, panels, panel_at(e, panels, panel), first * wide,
              std::min(e.out, last * wide) - first * wide, w,
              packed + (panel * strips + first) * strip_floats(panels));
}

int64_t scratch_floats_of(const DirectConvolution& e) {
  const Panels panels = panels_of(e);
  int64_t reached = 0;  // of tables, two floats each
  for (const auto& axis : e.axes) reached += axis.taps * axis.positions;
  return panels.columns / strip_columns() * strip_floats(panels) +
         ceil_div(panels.features, int64_t{16}) * 16 + 2 * reached;
}

class Convolution {
 public:
  Convolution(const DirectConvolution& e, const float* x, const ConvolutionWeights& w, float* y,
              float* scratch)
      : e_(e), panels_(panels_of(e)), x_(x), w_(w), y_(y), packed_(scratch) {
    zeros_ = scratch + panels_.columns / strip_columns() * strip_floats(panels_);
    std::fill_n(zeros_, panels_.features, 0.0F);
    make_tables(zeros_ + ceil_div(panels_.features, int64_t{16}) * 16);
  }

  void run(const ConvolutionPart& part) {
    for (column_ = part.first; column_ < part.last; column_ += panels_.columns) {
      columns_ = std::min(panels_.columns, part.last - column_);
      const int64_t panels = panel_count(e_, panels_);
      for (int64_t panel = 0; panel < panels; ++panel) run_panel(part, panel);
    }
  }

 private:
  void run_panel(const ConvolutionPart& part, int64_t panel) {
    panel_ = panel_at(e_, panels_, panel);
    if (w_.packed != nullptr) {
      strips_ =
          w_.packed + (panel * strips_of(e_) + column_ / strip_columns()) * strip_floats(panels_);
    } else {
      pack_strips(e_, panels_, panel_, column_, columns_, w_.plain, packed_);
      strips_ = packed_;
    }
    each_range(e_, [&](const BlockRange& range) {
      // A share of each, since they differ in the taps that they have.
      run_blocks(range, part.share * range.blocks / part.shares,
                 (part.share + 1) * range.blocks / part.shares);
    });
  }

  // For each tap and position of an axis where in x the tap leads it; a large negative number where
  // that is nowhere.
  void make_tables(float* room) {
    auto* to = reinterpret_cast<int64_t*>(room);
    for (size_t a = 0; a < kDirectAxes; ++a) {
      const DirectConvolution::Axis& axis = e_.axes[a];
      tables_[a] = to;
      for (int64_t t = 0; t < axis.taps; ++t)
        for (int64_t p = 0; p < axis.positions; ++p) {
          const int64_t at = p * axis.stride + t * axis.dilation - axis.pad;
          const bool met = at >= 0 && at % axis.spread == 0 && at / axis.spread < axis.input;
          *to++ = met ? at / axis.spread * axis.x_step : kNowhere;
        }
    }
  }

  // The positions of a block: where their results go, and, by axis, which they are.
  struct Block {
    int64_t count = 0;
    int64_t image[kBlockPositions] = {};  // where it begins in x
    int64_t at[kDirectAxes][kBlockPositions] = {};
    float* y[kBlockPositions] = {};
  };

  Block block_at(const BlockRange& range, int64_t block) const {
    Block out;
    int64_t rest = block * kBlockPositions;
    out.count = std::min(kBlockPositions, range.positions - rest);
    int64_t index[kDirectAxes];
    for (size_t a = kDirectAxes; a-- > 0;) {
      index[a] = rest % range.classes[a].count;
      rest /= range.classes[a].count;
    }
    for (int64_t i = 0; i < out.count; ++i) {
      int64_t to = column_ + rest * e_.y_image;
      for (size_t a = 0; a < kDirectAxes; ++a) {
        out.at[a][i] = range.classes[a].first + index[a] * range.classes[a].step;
        to += out.at[a][i] * e_.axes[a].y_step;
      }
      out.image[i] = rest * e_.x_image;
      out.y[i] = y_ + to;
      size_t a = kDirectAxes;
      while (a > 0 && ++index[a - 1] == range.classes[a - 1].count) index[--a] = 0;
      if (a == 0) ++rest;
    }
    return out;
  }

  // What the block reads at each tap of the panel that leads one of its positions to x.
  int64_t segments_of(const Block& block) {
    int64_t count = 0;
    for (int64_t t = 0; t < panel_.taps; ++t) {
      const Tap tap = tap_at(e_, panel_.tap + t);
      const int64_t* table[kDirectAxes];
      for (size_t a = 0; a < kDirectAxes; ++a)
        table[a] = tables_[a] + tap.at[a] * e_.axes[a].positions;
      Segment& segment = segments_[count];
      bool any = false;
      for (int64_t i = 0; i < block.count; ++i) {
        const int64_t at =
            table[0][block.at[0][i]] + table[1][block.at[1][i]] + table[2][block.at[2][i]];
        any |= at >= 0;
        segment.x[i] = at >= 0 ? x_ + block.image[i] + at + panel_.feature : zeros_;
      }
      for (int64_t i = block.count; i < kBlockPositions; ++i) segment.x[i] = zeros_;
      segment.w = t * panel_.features * strip_columns();
      count += any;
    }
    return count;
  }

  void run_blocks(const BlockRange& range, int64_t first, int64_t last) {
    const bool adds = panel_.feature > 0 || panel_.tap > 0;
    const int64_t wide = strip_columns(), lanes = static_cast<int64_t>(hn::Lanes(Tag()));
    alignas(64) float edge[kBlockPositions * kStripVectors * HWY_MAX_BYTES / sizeof(float)];
    float* to_edge[kBlockPositions];
    for (int64_t i = 0; i < kBlockPositions; ++i) to_edge[i] = edge + i * wide;
    for (int64_t b = first; b < last; ++b) {
      const Block block = block_at(range, b);
      const int64_t segments = segments_of(block);
      const float* strip = strips_;
      for (int64_t j = 0; j < columns_; j += wide, strip += strip_floats(panels_)) {
        const int64_t columns = std::min(wide, columns_ - j), vectors = ceil_div(columns, lanes);
        if (block.count == kBlockPositions && columns == vectors * lanes) {
          (adds ? block_of<true>(vectors) : block_of<false>(vectors))(
              segments_, segments, panel_.features, strip, block.y, j);
          continue;
        }
        block_of<false>(vectors)(segments_, segments, panel_.features, strip, to_edge, 0);
        for (int64_t i = 0; i < block.count; ++i)
          for (int64_t c = 0; c < columns; ++c) {
            float* const to = block.y[i] + j + c;
            *to = edge[i * wide + c] + (adds ? *to : 0.0F);
          }
      }
    }
  }

  const DirectConvolution& e_;
  const Panels panels_;
  const float* x_;
  const ConvolutionWeights w_;
  float *y_, *packed_, *zeros_;
  const float* strips_ = nullptr;  // of the panel
  const int64_t* tables_[kDirectAxes] = {};
  PanelAt panel_;
  int64_t column_ = 0, columns_ = 0;
  Segment segments_[kMostTaps];
};

void run_convolution(const DirectConvolution& e, const ConvolutionPart& part, const float* x,
                     const ConvolutionWeights& w, float* y, float* scratch) {
  Convolution(e, x, w, y, scratch).run(part);
}

}  // namespace

ConvolutionFunctions find_direct_convolution() {
  return {run_convolution, scratch_floats_of, pack_kernel, packed_floats_of, packing_parts_of};
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_direct_convolution);

const ConvolutionFunctions& functions() {
  static const ConvolutionFunctions found = HWY_DYNAMIC_DISPATCH(find_direct_convolution)();
  return found;
}

}  // namespace

int64_t convolution_scratch_bytes(const DirectConvolution& convolution) {
  return functions().scratch(convolution) * 4;
}

void run_direct_convolution(const DirectConvolution& convolution, const ConvolutionPart& part,
                            const float* x, const ConvolutionWeights& w, float* y, float* scratch) {
  functions().run(convolution, part, x, w, y, scratch);
}

int64_t packed_kernel_bytes(const DirectConvolution& convolution) {
  return functions().packed(convolution) * 4;
}

int64_t packing_parts(const DirectConvolution& convolution) {
  return functions().packing_parts(convolution);
}

void pack_kernel_part(const DirectConvolution& convolution, int64_t part, const float* w,
                      float* packed) {
  functions().pack(convolution, part, w, packed);
}

}  // namespace gspmd
#endif
