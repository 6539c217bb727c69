#pragma once

#include <vector>

#include "kernels/loop_code_passes.h"
#include "kernels/loop_code_target.h"

namespace gspmd {

// Sections [begin, end) of a schedule; where a plan goes by rows, of every row.
struct CodeFunction {
  const LoopSchedule* schedule;
  size_t begin, end;
  const LoopPlan* plan;
};

// Machine code of functions of (rdi: table of registers, rsi: elements of the tile or of a row),
// and where each starts. False where more values are in use at once than registers and a stack
// frame hold.
bool write_functions(const LoopCodeTarget& target, const std::vector<LoopRegister>& registers,
                     const std::vector<CodeFunction>& functions, std::vector<uint8_t>& code,
                     std::vector<size_t>& starts);

}  // namespace gspmd
