#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Gives nodes without a kernel of their own the same value by ops that have one, before fusion:
// * products and convolutions: of operands of two floating types, of 8 bits or less, and in
//   convolutions of f16, and of bf16 where the processor has no other kernel, in f32 or f64,
//   rounded once; of integers of up to 16 bits in the floats that hold every sum of them, so that
//   no number changes; of complex numbers by those of their parts;
// * windows of 16-bit floats, and gradients of max-pools over them, in f32, rounded once; windows
//   that take in whole dims as reductions;
// * reductions of several arrays by a computation that joins each by itself, by one op, as one for
//   each;
// * batch norms, maps, and fusions that the module came with, by what they are made of.
// Whether there were any.
bool use_run_forms(Computation& computation);

}  // namespace gspmd
