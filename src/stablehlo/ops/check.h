#pragma once

#include <string>

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {

// A check that the run makes: that all elements of `holds`, of pred, are true; `what` is said with
// the line of the op where one is not.
Node* emit_check(OpLowering& op, Node* holds, const std::string& what);

}  // namespace gspmd::stablehlo
