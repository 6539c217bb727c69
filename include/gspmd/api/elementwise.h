#pragma once

// Elementwise functions beyond those of math.h: trigonometry, rounding, bits, integer division,
// complex numbers and reinterpretation.

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// --- one operand, element by element; floating or complex
GSPMD_API Tensor acos(Operand x);
GSPMD_API Tensor acosh(Operand x);
GSPMD_API Tensor asin(Operand x);
GSPMD_API Tensor asinh(Operand x);
GSPMD_API Tensor atan(Operand x);
GSPMD_API Tensor atanh(Operand x);
GSPMD_API Tensor cosh(Operand x);
GSPMD_API Tensor sinh(Operand x);
GSPMD_API Tensor tan(Operand x);
GSPMD_API Tensor cbrt(Operand x);
GSPMD_API Tensor log2(Operand x);
GSPMD_API Tensor log10(Operand x);
GSPMD_API Tensor reciprocal(Operand x);  // 1 / x

// --- floating
GSPMD_API Tensor erf(Operand x);
// As exact as erf is; NaN outside [-1, 1]. Has its first four derivatives; NaN at -1 and 1.
GSPMD_API Tensor erf_inv(Operand x);
GSPMD_API Tensor round(Operand x);                 // to the nearest integer, halves to the even one
GSPMD_API Tensor round_away_from_zero(Operand x);  // halves away from zero, as C's round
GSPMD_API Tensor trunc(Operand x);                 // towards zero
GSPMD_API Tensor isnan(Operand x);                 // pred; floating or complex
GSPMD_API Tensor isinf(Operand x);                 // pred, either sign
GSPMD_API Tensor nextafter(Operand x, Operand to);  // f16, bf16, f32 or f64
GSPMD_API Tensor atan2(Operand y, Operand x);       // the angle of x + iy
GSPMD_API Tensor logaddexp(Operand a, Operand b);   // log(exp(a) + exp(b)) without overflow

// --- Bits: integers or pred
GSPMD_API Tensor operator&(Operand a, Operand b);
GSPMD_API Tensor operator|(Operand a, Operand b);
GSPMD_API Tensor operator^(Operand a, Operand b);
GSPMD_API Tensor operator~(Operand x);
// --- Shifts of integers; by the width or more: 0, of negative numbers to the right -1. `>>` keeps
// the sign of signed integers.
GSPMD_API Tensor operator<<(Operand x, Operand bits);
GSPMD_API Tensor operator>>(Operand x, Operand bits);
GSPMD_API Tensor shift_right_logical(Operand x, Operand bits);  // zeros come in, whatever the sign
GSPMD_API Tensor popcount(Operand x);                           // how many bits are 1; integers
GSPMD_API Tensor clz(Operand x);                                // how many zeros lead; integers
GSPMD_API Tensor logical_xor(Operand a, Operand b);             // pred

// --- Division that rounds down, and what it leaves, which has the sign of the divisor, as NumPy's
// floor_divide and mod. Of integers, / rounds towards zero and remainder() is what that leaves.
GSPMD_API Tensor floor_divide(Operand a, Operand b);
GSPMD_API Tensor mod(Operand a, Operand b);

// --- Complex numbers: c64 of f32 parts, c128 of f64. Of a real x: x, 0, x, and 0 or pi
GSPMD_API Tensor complex(Operand real, Operand imag);
GSPMD_API Tensor real(Operand x);
GSPMD_API Tensor imag(Operand x);
GSPMD_API Tensor conj(Operand x);
GSPMD_API Tensor angle(Operand x);

GSPMD_API Tensor clip(Operand x, Operand low, Operand high);  // min(max(x, low), high)

// The same bits as another dtype. One of half the width: a last dim of 2 more; of twice the width:
// the last dim, which has to be 2, goes; so for other ratios. As jax.lax.bitcast_convert_type.
GSPMD_API Tensor bitcast(Operand x, DType dtype);
// Rounds floats to another dtype of numbers, up with the probability that is the part cut off:
// `random`, unsigned integers of x's dims and width as random_bits() gives them, decides. HLO's
// stochastic-convert.
GSPMD_API Tensor stochastic_convert(Operand x, Operand random, DType dtype);
// Rounds to floats of so many bits, keeping the dtype. As jax.lax.reduce_precision.
GSPMD_API Tensor reduce_precision(Operand x, int64_t exponent_bits, int64_t mantissa_bits);

}  // namespace gspmd
