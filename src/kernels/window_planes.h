#pragma once

// Sums over windows of planes whose positions are contiguous (channels first), each element weighed
// or not: depthwise convolutions and pools.

#include <array>
#include <cstdint>
#include <vector>

#include "gspmd/kernels/convolution.h"
#include "gspmd/kernels/pool.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

constexpr size_t kWindowAxes = 3;

// y[plane, position] = init and, tap after tap in their order, what they read:
// x[plane, position * stride + tap * dilation - pad], times w[plane, tap] where there are weights.
// What is outside of x adds nothing. Steps in elements; positions lie as an array of their own,
// along the last axis in x too.
struct WindowPlanes {
  struct Axis {
    int64_t input = 1, taps = 1, positions = 1, stride = 1, dilation = 1, pad = 0, x_step = 0;
  };
  std::array<Axis, kWindowAxes> axes;  // major first; those that are not there are of ones
  int64_t images = 1, channels = 1;    // of y
  int64_t sharing = 1;                 // channels of y that read one of x
  int64_t x_image = 0, x_channel = 0, y_image = 0, y_channel = 0;
  int64_t w_channel = 0;
  std::vector<int64_t> w_taps;  // of a channel's weights; empty: there are none

  int64_t planes() const { return images * channels; }
  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  int64_t positions() const { return axes[0].positions * axes[1].positions * axes[2].positions; }
};

// What a band of rows of positions reads, laid out so that a tap of neighbouring positions is
// neighbours: of each row of x one phase of the stride behind the other, with what adds nothing
// around them.
struct WindowLayout {
  // Places [begin, end) of it are elements of a row of x from `from` on, a stride apart.
  struct Phase {
    int64_t first = 0;  // element of a window
    int64_t begin = 0, end = 0, from = 0;
  };
  int64_t band = 1, bands = 1;   // positions along axis 1 of a band; how many of these
  int64_t planes = 1, rows = 1;  // along axes 0 and 1
  std::vector<Phase> phases;     // those that are read
  int64_t width = 0;             // of a phase, in elements
  std::vector<int64_t> taps;     // where each tap reads
  int64_t row() const { return width * static_cast<int64_t>(phases.size()); }
  int64_t elements() const { return planes * rows * row(); }
};

// Units [first, last) of bands and planes, the planes of a band one after the other. Operands: x,
// and w or init.
using WindowPlanesFunction = void (*)(const WindowPlanes& planes, const WindowLayout& layout,
                                      int64_t first, int64_t last, const KernelArgs& args);
// nullptr: not for this type.
WindowPlanesFunction window_planes_function(DType dtype, bool weighed);
int64_t window_lanes(DType dtype);  // of a vector of this processor

// `run` is empty where rows are short, or the type has no function.
PreparedKernel prepare_window_planes(WindowPlanes planes, DType dtype);

// `run` is empty where `spec` is no depthwise convolution of channels first.
PreparedKernel prepare_depthwise_planes(const ConvolutionSpec& spec);
// The same of sums over windows along the innermost dims.
PreparedKernel prepare_pool_planes(const PoolSpec& spec);

}  // namespace gspmd
