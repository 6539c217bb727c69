#pragma once

#include "kernels/loop_code_block.h"

namespace gspmd {

// exp, expm1, log, log1p, tanh, rsqrt, logistic of f32: the steps of loop_functions_math.cpp, bit
// for bit what they give. `to` and `a` are different registers.
void emit_math(BlockEmitter& block, LoopOp op, Vec to, Vec a);

}  // namespace gspmd
