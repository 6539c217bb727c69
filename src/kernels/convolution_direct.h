#pragma once

// Convolutions of f32 whose features are contiguous, without a library.

#include <array>
#include <cstdint>

#include "gspmd/kernels/convolution.h"

namespace gspmd {

constexpr size_t kDirectAxes = 3;

// The gradient of a kernel: c[tap, i, o] = sum over images and positions of
// x[image, position * stride + tap * dilation - pad, i] * g[image, position, o]. Steps in elements;
// i, and o, follow one another in memory.
struct KernelGradient {
  struct Axis {
    int64_t input = 1, taps = 1, positions = 1, stride = 1, dilation = 1, pad = 0;
    int64_t x_step = 0, g_step = 0, c_step = 0;  // of an element of x, a position, a tap
  };
  int64_t images = 1, in = 1, out = 1;
  int64_t x_image = 0, g_image = 0, c_row = 0;  // c_row: of i
  std::array<Axis, kDirectAxes> axes;           // major first; those that are not there are of ones
  // Positions along the last axis are a row.
  int64_t rows() const { return images * axes[0].positions * axes[1].positions; }
};

// Rows of positions, and columns of c.
struct GradientPart {
  int64_t first_row = 0, last_row = 0, first = 0, last = 0;
};

int64_t gradient_scratch_bytes(const KernelGradient& gradient);
// Writes the part's columns of c, summed over its rows.
void run_kernel_gradient(const KernelGradient& gradient, const GradientPart& part, const float* x,
                         const float* g, float* c, float* scratch);
int64_t direct_lanes();    // of the vectors of this processor
int64_t gradient_strip();  // columns that are computed at a time

double convolution_flops(const ConvolutionSpec& spec);

// A convolution: y[image, position, o] = sum over taps and i of
// x[image, (position * stride + tap * dilation - pad) / spread, i] * w[tap, i, o], where that is a
// whole number and inside of x. Steps in elements; i in x, and o in y, follow one another in
// memory.
struct DirectConvolution {
  struct Axis {
    int64_t input = 1, taps = 1, positions = 1, stride = 1, dilation = 1, spread = 1, pad = 0;
    int64_t x_step = 0, w_step = 0, y_step = 0;  // of an element of x, a tap, a position
  };
  int64_t images = 1, in = 1, out = 1;
  int64_t x_image = 0, y_image = 0;
  int64_t w_first = 0, w_in = 0, w_out = 0;  // of the first tap; from i to i, from o to o
  std::array<Axis, kDirectAxes> axes;        // as KernelGradient's
};

// Part `share` of `shares` of the positions, and columns of y.
struct ConvolutionPart {
  int64_t share = 0, shares = 1, first = 0, last = 0;
};

// The kernel of a convolution: as it is given, and, or nullptr, as it is read.
struct ConvolutionWeights {
  const float *plain = nullptr, *packed = nullptr;
};

int64_t convolution_scratch_bytes(const DirectConvolution& convolution);
void run_direct_convolution(const DirectConvolution& convolution, const ConvolutionPart& part,
                            const float* x, const ConvolutionWeights& w, float* y, float* scratch);
// The whole kernel as it is read, in independent parts.
int64_t packed_kernel_bytes(const DirectConvolution& convolution);
int64_t packing_parts(const DirectConvolution& convolution);
void pack_kernel_part(const DirectConvolution& convolution, int64_t part, const float* w,
                      float* packed);

// `run` is empty where `spec` is none of f32 in this order of memory, or the library has the faster
// one.
PreparedKernel prepare_direct_convolution(const ConvolutionSpec& spec);

// `run` is empty where `spec` is no gradient of f32 in this order of memory.
PreparedKernel prepare_kernel_gradient(const ConvolutionSpec& spec);

}  // namespace gspmd
