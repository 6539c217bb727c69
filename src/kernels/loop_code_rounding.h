#pragma once

// What rounding to bf16 may leave out.

#include <vector>

#include "kernels/loop_code_target.h"
#include "kernels/loop_plan.h"

namespace gspmd {

// Marks the f32 values of a plan's body and rest whose numbers bf16 holds (`is_bf16`: rounding
// changes none), and those whose NaNs have no bits that bf16 has not (`short_nan`: rounding as
// numbers are rounded leaves them NaN). What comes from an operand of f32 may be any NaN.
void mark_bf16(const LoopCodeTarget& target, const LoopPlan& plan,
               std::vector<LoopRegister>& registers);

}  // namespace gspmd
