#pragma once

// Loop plans as machine code of x86-64 with AVX-512.

#include <vector>

#include "kernels/loop_plan.h"

namespace gspmd {

// Whether this machine has the instructions, the system gave executable memory, and nothing has
// switched machine code off (GSPMD_LOOP_CODE=0 in the environment).
bool has_loop_code();

void count_interpreted_loop();  // for loop_code_stats

// Replaces what the body and the rest of a plan compute by machine code and marks in `kept` the
// registers that need memory besides. Every output has a `store`. False, and the plan is of no use,
// where the interpreter must run it.
bool add_loop_code(LoopPlan& plan, std::vector<LoopRegister> registers, std::vector<bool>& kept);

}  // namespace gspmd
