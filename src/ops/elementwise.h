#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Aspects of the elementwise family, each a table of its own file; nullptr where there is none.
decltype(OpInfo::evaluate) elementwise_evaluate(Opcode opcode);
decltype(OpInfo::gradient) elementwise_gradient(Opcode opcode);

}  // namespace gspmd
