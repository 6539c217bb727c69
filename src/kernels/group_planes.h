#pragma once

// Convolutions of groups of features, and gradients of their kernels: what positions read of a few
// features is laid out as planes, so that neighbouring positions are lanes however few the features
// of a group are.

#include <array>
#include <cstdint>
#include <vector>

#include "gspmd/kernels/convolution.h"

namespace gspmd {

constexpr size_t kGroupAxes = 3;

// Along an axis position m reads x[m * stride + shift] at each tap, low <= shift <= high, and zero
// where that is outside.
struct GroupAxis {
  int64_t input = 1, positions = 1, stride = 1;
  int64_t low = 0, high = 0;
  int64_t x_step = 0;           // of an element of x
  std::vector<int64_t> phases;  // (shift - low) % stride of all taps, in order

  // Places of a phase behind those of the positions.
  int64_t span() const { return (high - low) / stride; }
  int64_t phase_count() const { return static_cast<int64_t>(phases.size()); }
  // Which phase a tap reads, and where its position 0 is there.
  int64_t phase_of(int64_t shift) const;
  int64_t place_of(int64_t shift) const { return (shift - low) / stride; }
};

// How a block of positions, `block` along the two outer axes, lies for each feature: by phase and
// place of the outer axis, then by phases of the others planes of rows `pitch` apart. Zeros behind
// a row are those in front of the next one where both are wanted. All in floats.
struct GroupLayout {
  std::array<GroupAxis, kGroupAxes> axes;  // major first; those that are not there are of ones
  std::array<int64_t, 2> block = {1, 1};
  int64_t pitch = 1;
  int64_t plane = 1;  // from one plane to the next

  // From a place of the outer axis, and from a feature, to the next.
  int64_t outer() const { return axes[1].phase_count() * axes[2].phase_count() * plane; }
  int64_t feature() const {
    return axes[0].phase_count() * (block[0] + axes[0].span()) * outer() + kGroupSkew;
  }
  // Where position 0 reads at a tap with these shifts.
  int64_t offset_of(const std::array<int64_t, kGroupAxes>& shifts) const;

  static constexpr int64_t kGroupSkew = 16;  // keeps features off one another's cache sets
};

// The pitch that the axes want, and then planes for blocks of so many positions.
void set_pitch(GroupLayout& layout);
void set_block(GroupLayout& layout, int64_t outer, int64_t inner);

// Positions from `first` on along the two outer axes, `count` of them.
struct GroupBlock {
  std::array<int64_t, 2> first = {0, 0}, count = {1, 1};
};

// Rows of sums: y[r, p] = sum over i and t of x[i * x_feature + taps[t] + p] * w[i, t, r].
struct GroupSums {
  const float *x = nullptr, *w = nullptr;
  const int64_t* taps = nullptr;
  int64_t tap_count = 0, in = 1, x_feature = 0;
  int64_t rows = 1;  // up to kGroupRows
  float* y = nullptr;
  int64_t y_row = 0;
  int64_t vectors = 0;  // of each row
};
constexpr int64_t kGroupRows = 4;

// `rows` positions of `features`, a row of each at `from`, to where they lie: steps in elements.
struct GroupRow {
  const float* from = nullptr;
  int64_t from_feature = 0, features = 1, positions = 1;
  int64_t to_position = 0, to_feature = 0;
  int64_t next = 0;  // to the row that is written next
};

// c[pair, o] += sum over images, places, rows and positions of x[pairs[pair] + ...] * g[o, ...].
// Rows of both are `pitch` apart. Behind the positions of a row g is zero, and x any number.
struct GroupProducts {
  // Along images, and places of the outer axis.
  struct Loop {
    int64_t count = 1, x_step = 0, g_step = 0;
  };
  const float *x = nullptr, *g = nullptr;
  std::array<Loop, 2> loops;
  int64_t rows = 1, positions = 1, pitch = 1;
  const int64_t* pairs = nullptr;
  int64_t pair_count = 0;
  int64_t out = 1, g_feature = 0;
  float* c = nullptr;  // [pair_count, out]
};

struct GroupFunctions {
  // A block of x, of f32, bf16 or f16 as `dtype` says.
  void (*lay_out)(const GroupLayout& layout, const GroupBlock& block, DType dtype,
                  const std::byte* x, int64_t x_feature, int64_t features, float* to);
  void (*sum)(const GroupSums& sums);
  void (*write)(const GroupRow& row, DType dtype, std::byte* to);
  void (*multiply)(const GroupProducts& products);
  int64_t lanes;
};
const GroupFunctions& group_functions();  // of this processor

// `run` is empty where `spec` has no groups, is depthwise, is not of f32, bf16 or f16, or is too
// large.
PreparedKernel prepare_group_convolution(const ConvolutionSpec& spec);
// The same of gradients of kernels: windows as large as the images, by groups of the batch.
PreparedKernel prepare_group_gradient(const ConvolutionSpec& spec);

}  // namespace gspmd
