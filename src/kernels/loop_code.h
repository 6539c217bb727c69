#pragma once

// Loop plans as machine code of x86-64.

#include <vector>

#include "kernels/loop_code_target.h"
#include "kernels/loop_plan.h"

namespace gspmd {

// What code is made for: `best` is what this machine runs, unless something has switched machine
// code off (GSPMD_LOOP_CODE=0 in the environment) or the system gives no executable memory; the
// others are themselves, whether the machine runs them or not. nullptr: the interpreter.
const LoopCodeTarget* loop_code_target(LoopTarget wanted);

void count_interpreted_loop();  // for loop_code_stats

// Replaces what the body and the rest of a plan compute by machine code and marks in `kept` the
// registers that need memory besides. Every output has a `store`. False, and the plan is of no use,
// where the interpreter must run it.
bool add_loop_code(const LoopCodeTarget& target, LoopPlan& plan,
                   std::vector<LoopRegister> registers, std::vector<bool>& kept);

}  // namespace gspmd
