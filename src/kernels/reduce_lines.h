#pragma once

#include "gspmd/kernels/loop_program.h"

namespace gspmd {

// result[l] = init combined with operand[l, e] for all e, in the order in which loops combine the
// elements of a row: several short lines at once, each in a lane. `reduce`: a reduce_* op.
// Operands: values, init. Sums of 16-bit floats are taken in f32 and rounded once, integers below
// 32 bits and preds combined in s32 and wrapped once. `run` is empty for floats below 16 bits and
// for complex numbers, and where lines are few or long.
PreparedKernel prepare_reduce_lines(DType dtype, LoopOp reduce, int64_t lines, int64_t elements);

}  // namespace gspmd
