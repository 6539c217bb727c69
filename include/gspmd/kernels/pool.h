#pragma once

#include <cstdint>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

enum class PoolOp : uint8_t { sum, max, min };

// The elements that one window position reads along a dim: first, first + step, ...
struct PoolRun {
  int64_t first = 0, step = 1, count = 0;
};

// result[o, i] = init combined with input[w, i] for each w in the window of position o. `axes` has,
// per dim outermost first, its step in the input (elements) and the run of each position; behind
// them lie `inner` contiguous elements i.
struct PoolAxis {
  int64_t step = 1;
  std::vector<PoolRun> positions;
};
struct PoolSpec {
  DType dtype = DType::f32;
  PoolOp op = PoolOp::sum;
  std::vector<PoolAxis> axes;
  int64_t inner = 1;
};

// Operands: input, init. `run` is empty for types other than f32, f64 and s32.
GSPMD_API PreparedKernel prepare_pool(PoolSpec spec);

// The gradient of a maximum: each element of the source (one per position) is added to the first of
// the largest elements of its window. Axes of one position per element and `inner` stay apart.
// Operands: input, source, init; the result has `elements` like the input. `run` is empty for types
// other than f32 and f64.
GSPMD_API PreparedKernel prepare_pool_gradient(PoolSpec spec, int64_t elements);

}  // namespace gspmd
