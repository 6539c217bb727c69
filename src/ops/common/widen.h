#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Narrow element types (sub-byte integers, 8-bit and 4-bit floats) are computed in s8, u8 or f32
// and rounded back: one way for all ops, instead of kernels for each of the types.

bool has_narrow(const Shape& shape);  // a leaf of it
DType widened_type(DType dtype);      // itself where it is not narrow
Array widened(const Array& array);    // shares the elements where nothing is to do
// The elements of an s8, u8, s64, f32 or f64 array in a narrow type: integers wrap, floats round.
Array narrowed(const Array& array, DType dtype);

// The elements as convert makes them, into `result`, whose elements these are. Types that are not
// narrow.
Array converted(const Array& array, const Array& result);

// An operand of a sum of products: where the result is of integers, floats are converted to its
// type before they are multiplied, as the field does it. Else the array itself.
Array product_operand(const Array& array, DType result);

// Runs `kernel` on widened operands as if the node had been written in the wider types.
// Computations that it calls keep their types.
Value evaluate_widened(const EvalContext& context, Value (*kernel)(const EvalContext& context));

// The kernel, through evaluate_widened where an operand or the result is narrow.
Value evaluate_any_width(const EvalContext& context, Value (*kernel)(const EvalContext& context));
template <Value (*kernel)(const EvalContext& context)>
Value any_width(const EvalContext& context) {
  return evaluate_any_width(context, kernel);
}

}  // namespace gspmd
