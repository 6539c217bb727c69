#pragma once

#include "gspmd/kernels/loop_program.h"

namespace gspmd {

// result[o, i] = init combined with operand[o, r, i] for all r: rows of `inner` elements are
// combined as a whole.
struct ReduceRows {
  DType dtype = DType::f32;
  LoopOp reduce = LoopOp::reduce_sum;  // a reduce_* op
  int64_t outer = 1, rows = 1, inner = 1;
};
// Operands: values, init. Sums of 16-bit floats are taken in f32 and rounded once. `run` is empty
// for types that are not has_loop_functions, and where rows are short or few.
PreparedKernel prepare_reduce_rows(const ReduceRows& spec);

}  // namespace gspmd
