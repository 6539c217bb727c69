#pragma once

#include <optional>

#include "gspmd/kernels/loop_program.h"

namespace gspmd {

bool is_half_dtype(DType dtype);  // bf16, f16

// The program with its 16-bit floats computed in f32: operands are read into f32, every result that
// the type may not hold is rounded to it (reductions once, at their end), outputs are stored
// rounded. nullopt: there are none.
std::optional<LoopProgram> widened(const LoopProgram& program);

}  // namespace gspmd
