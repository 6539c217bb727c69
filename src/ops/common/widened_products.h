#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Products and convolutions whose types have no kernel of their own, by one that has: operands of
// two floating types, of 8 bits or less, and of f16 in convolutions, in f32 or f64, rounded once;
// integers of up to 16 bits in the floats that hold every sum of them, so that no number changes.
bool widen_products(Computation& computation);

}  // namespace gspmd
