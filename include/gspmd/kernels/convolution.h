#pragma once

// Convolutions by library primitives.

#include <cstdint>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// One spatial dim: sizes, the window over it, and the steps it makes in the three arrays, in
// elements.
struct ConvolutionAxis {
  // --- sizes, HLO's window attributes, steps in elements
  int64_t input = 1, kernel = 1, output = 1;
  int64_t stride = 1, pad_low = 0, base_dilation = 1, window_dilation = 1;
  bool reversal = false;
  int64_t input_step = 0, kernel_step = 0, output_step = 0;
};

// result[b, f, o] = sum over i, k of input[b', i', o * stride + k * window_dilation - pad_low] *
// kernel[f, i, k] as HLO's convolution has it: `in_features` are those of one group.
struct ConvolutionSpec {
  DType operand = DType::f32, result = DType::f32;       // element types
  int64_t batch = 1, in_features = 1, out_features = 1;  // batch: of the result
  int64_t feature_groups = 1, batch_groups = 1;          // 1: ungrouped
  int64_t input_batch = 0, input_feature = 0;            // steps in the input
  int64_t kernel_input = 0, kernel_output = 0;           // steps in the kernel
  int64_t output_batch = 0, output_feature = 0;          // steps in the result, which is dense
  std::vector<ConvolutionAxis> axes;                     // spatial dims, major first
};

// Operands: input, kernel. A library primitive prepared once: plain convolutions, those with base
// dilation (transposed, or gradients of the input) and those with a window as large as the input
// (gradients of the kernel). `run` is empty where the library has none: other element types, more
// than three axes, both stride and base dilation.
GSPMD_API PreparedKernel prepare_convolution(const ConvolutionSpec& spec);

}  // namespace gspmd
