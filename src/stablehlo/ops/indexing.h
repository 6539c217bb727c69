#pragma once

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {

// A gather by the op's dimension_numbers, of slices of these sizes.
Node* emit_gather(OpLowering& op, Dims slice_sizes);

}  // namespace gspmd::stablehlo
