#pragma once

// Reading the values of constants.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// The value of a constant, to compute with. Text may leave the elements out, "{...}": such a
// constant is kept, moved and printed, and has an empty literal. UserError where it is one.
GSPMD_API const Array& known_literal(const Node& constant);

}  // namespace gspmd
