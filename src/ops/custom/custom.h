#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// The row that was added for a custom-call's target; nullptr: none was.
const OpInfo* custom_op_info(const Node& custom_call);

}  // namespace gspmd
