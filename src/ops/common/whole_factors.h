#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Every dim of every operand and result has to be whole on every device; nothing propagates.
FactorRule whole_factors(const Node& node);

}  // namespace gspmd
