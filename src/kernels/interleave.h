#pragma once

#include "gspmd/base/array.h"
#include "gspmd/kernels/loop_program.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Two arrays whose slices along a dim stand in turn in the result, the first one's first, each
// element combined with `other` by `op`: what a sum of two arrays is that are padded between.
struct Interleave {
  int64_t outer = 1, size = 1, inner = 1;  // the result's dims: before, along and behind the dim
  LoopOp op = LoopOp::add;
  Array other;  // one element, of the type of all
};

// Operands: elements 0, 2, ... and 1, 3, ... along the dim. `run` is empty where loops have no such
// op.
PreparedKernel prepare_interleave(Interleave spec);

}  // namespace gspmd
