#pragma once

#include <optional>

#include "gspmd/kernels/loop_program.h"

namespace gspmd {

bool is_half_dtype(DType dtype);         // bf16, f16
bool is_narrow_loop_dtype(DType dtype);  // integers below 32 bits, floats below 16

// The program with its shorter floats computed in f32 and its shorter integers in s32: operands are
// read into these, every result that the type may not hold is rounded to it or wrapped (reductions
// once, at their end), outputs are stored so. nullopt: there are none.
std::optional<LoopProgram> widened(const LoopProgram& program);

}  // namespace gspmd
