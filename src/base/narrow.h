#pragma once

#include <cstdint>

#include "gspmd/base/dtype.h"

namespace gspmd {

// The value of one stored element of a narrow type; sub-byte integers look at their low bits only.
double narrow_to_double(DType dtype, uint8_t bits);

// The nearest element, ties to even; values beyond the largest follow the format: inf, NaN, or the
// largest where it has neither. Sub-byte integers truncate toward zero and wrap (NaN is 0).
uint8_t narrow_from_double(DType dtype, double value);

// Bits of one element as they count in storage of the type: 1, 2, 4, 6 or 8.
int narrow_bits(DType dtype);

}  // namespace gspmd
