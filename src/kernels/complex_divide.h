#pragma once

#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// result[i] = a[i] / b[i] of `elements` complex numbers of f32 (C's division, infinities recovered
// from NaNs), computed in f64 and rounded once. The result may be the memory of an operand.
PreparedKernel prepare_complex_divide(int64_t elements);

}  // namespace gspmd
