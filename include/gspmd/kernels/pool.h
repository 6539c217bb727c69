#pragma once

// Sums and maxima over windows.

#include <cstdint>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

enum class PoolOp : uint8_t { sum, max, min };  // How the elements of a window combine.

// The elements that one window position reads along a dim: first, first + step, ...
struct PoolRun {
  int64_t first = 0, step = 1, count = 0;  // in elements of the dim
};

// result[o, i] = init combined with input[w, i] for each w in the window of position o. `axes` has,
// per dim outermost first, its step in the input (elements) and the run of each position; behind
// them lie `inner` contiguous elements i.
struct PoolAxis {
  int64_t step = 1;                // in the input, in elements
  std::vector<PoolRun> positions;  // one per position of the window
};
// A reduction over windows, and its gradient.
struct PoolSpec {
  DType dtype = DType::f32;    // of input and result
  PoolOp op = PoolOp::sum;     // how elements combine
  std::vector<PoolAxis> axes;  // outermost first
  int64_t inner = 1;           // contiguous elements per position
};

// Operands: input, init. `run` is empty for types other than f32, f64 and s32.
GSPMD_API PreparedKernel prepare_pool(PoolSpec spec);

// The gradient of a maximum: each element of the source (one per position) is added to the first of
// the largest elements of its window. Axes of one position per element and `inner` stay apart.
// Operands: input, source, init; the result has `elements` like the input. `run` is empty for types
// other than f32 and f64.
GSPMD_API PreparedKernel prepare_pool_gradient(PoolSpec spec, int64_t elements);

}  // namespace gspmd
