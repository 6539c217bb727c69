#pragma once

// What convolutions read of images whose positions are contiguous (channels first), as rows of a
// matrix: one for each feature and tap, with a column for each position.

#include <array>
#include <cstdint>

#include "kernels/convolution_direct.h"

namespace gspmd {

constexpr int64_t kMostPlaneTaps = 64;  // along an axis

// Column q of all images, `positions()` of each, reads for feature i at a tap
// x[image, i, position * stride + tap * dilation - pad], and zero where that is outside. Steps in
// elements.
struct Planes {
  struct Axis {
    int64_t input = 1, taps = 1, positions = 1, stride = 1, dilation = 1, pad = 0, x_step = 0;
  };
  int64_t images = 1, features = 1;
  int64_t x_image = 0, x_feature = 0;
  std::array<Axis, kDirectAxes> axes;  // major first; those that are not there are of ones

  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  int64_t positions() const { return axes[0].positions * axes[1].positions * axes[2].positions; }
  int64_t columns() const { return images * positions(); }
};

// Columns first to first + count, and rows of features `feature` to feature + features.
struct PlaneBlock {
  int64_t first = 0, count = 0, feature = 0, features = 0;
};

// Where row r and column c of a block go: to[c / wide * strip + r * wide + c % wide]. `wide`: a
// multiple of the lanes of a vector.
struct PlaneStrips {
  int64_t wide = 0, strip = 0;
};

// Writes the block, and zeros behind its columns as far as the last vector reaches.
void gather_planes(const Planes& planes, const PlaneBlock& block, const float* x,
                   const PlaneStrips& strips, float* to);

// With so many lanes the library's were measured to be slower, with more not.
constexpr int64_t kPlaneLanes = 8;

// `run` is empty where `spec` is no convolution of f32 of channels first, or of few numbers.
PreparedKernel prepare_planes(const ConvolutionSpec& spec);
// The same of gradients of kernels: windows of all positions over images whose batch they sum.
PreparedKernel prepare_planes_gradient(const ConvolutionSpec& spec);

// Whether the axes' steps are those of a dense array.
bool lie_densely(const ConvolutionSpec& spec, int64_t ConvolutionAxis::*size,
                 int64_t ConvolutionAxis::*step);

}  // namespace gspmd
