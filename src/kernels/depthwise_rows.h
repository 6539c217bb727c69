#pragma once

// Depthwise convolutions whose features are contiguous (channels last).

#include <algorithm>
#include <array>
#include <cstdint>

#include "gspmd/kernels/convolution.h"
#include "kernels/window_planes.h"

namespace gspmd {

// y[image, position, c] = sum over taps of x[image, position * stride + tap * dilation - pad, c] *
// w[tap, c], where that is inside of x. Steps in elements; features follow one another in memory.
struct DepthwiseRows {
  struct Axis {
    int64_t input = 1, taps = 1, positions = 1, stride = 1, dilation = 1, pad = 0;
    int64_t x_step = 0, w_step = 0, y_step = 0;  // of an element of x, a tap, a position
  };
  int64_t images = 1, channels = 1;
  int64_t x_image = 0, y_image = 0;
  int64_t w_first = 0;                 // the first tap
  std::array<Axis, kWindowAxes> axes;  // major first; those that are not there are of ones

  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  // Of positions side by side in a row that read the same taps.
  int64_t most_runs() const { return std::min(axes[2].positions, 2 * axes[2].taps + 1); }
  int64_t rows() const { return images * axes[0].positions * axes[1].positions; }
};

// Rows [first, last) of positions along the last axis; w is of x's type. `scratch`:
// depthwise_scratch_bytes().
using DepthwiseRowsFunction = void (*)(const DepthwiseRows& rows, int64_t first, int64_t last,
                                       const std::byte* x, const std::byte* w, std::byte* y,
                                       std::byte* scratch);
inline int64_t depthwise_scratch_bytes(const DepthwiseRows& rows) {
  constexpr int64_t kNumbersOfRun = 5;
  return rows.most_runs() * (kNumbersOfRun + 2 * rows.taps()) * 8;
}
// nullptr: not for these types.
DepthwiseRowsFunction depthwise_rows_function(DType operand, DType result);

// `run` is empty where `spec` is no depthwise convolution of f32, bf16 or f16 in this order of
// memory.
PreparedKernel prepare_depthwise_rows(const ConvolutionSpec& spec);

}  // namespace gspmd
