#pragma once

#include "kernels/loop_functions.h"

namespace gspmd {

// The families that find_loop_function looks through; nullptr where an op is not of the family.
LoopFunction number_loop(LoopOp op, DType input);  // arithmetic, compare, select, bits
LoopFunction math_loop(LoopOp op, DType input);    // exp, log, tanh, erf and their kin
LoopFunction wide_loop(LoopOp op, DType input);    // sine, power and their kin, roundings
LoopFunction convert_loop(DType input, DType result);
LoopFunction reduce_loop(LoopOp op, DType input);
FoldRows number_fold_rows(LoopOp reduce, DType input);
FoldRows half_fold_rows(LoopOp reduce, DType input);
// Of bf16 and f16: conversion from and to f32, rounding, combining of stored numbers.
LoopFunction half_loop(LoopOp op, DType input, DType result);
// Of narrower types: conversion from and to f32 or s32, of what they hold; copies.
LoopFunction narrow_loop(LoopOp op, DType input, DType result);
LoopFunction short_loop(DType input);  // LoopOp::shorten

}  // namespace gspmd
