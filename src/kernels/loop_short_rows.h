#pragma once

#include "gspmd/kernels/loop_program.h"

namespace gspmd {

// Loops whose last dim is so short that rows along it are no vectors, as the channels of a group
// are: what stops it from being one with the dim before is laid out over both first, where that is
// little beside the loop; and a reduction along it comes behind the others, of what these leave.
// `run` is empty where the program is no such loop.
PreparedKernel prepare_short_rows(const LoopProgram& program, const LoopOptions& options);

}  // namespace gspmd
