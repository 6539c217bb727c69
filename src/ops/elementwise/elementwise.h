#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Aspects of the elementwise family, each a table of its own file; nullptr where there is none.
decltype(OpInfo::infer) elementwise_infer(Opcode opcode);
decltype(OpInfo::evaluate) elementwise_evaluate(Opcode opcode);
decltype(OpInfo::gradient) elementwise_gradient(Opcode opcode);
// A loop, of numbers that loops take; of complex numbers by their parts.
PreparedKernel lower_elementwise(const Node& node);
// Of functions that loops do not have, the numbers of the evaluator; `run` is empty for others.
PreparedKernel lower_function(const Node& node);

// Bits of an element: for bitcast-convert, to which pred is one bit, and as they count in storage.
int element_bits(DType dtype);
int storage_bits(DType dtype);

// Kernels on types that are not narrow.
using RealFunction = double (*)(double);
RealFunction real_function(Opcode opcode);  // functions.cpp: exp, sine, ...; nullptr: none
Value evaluate_function(const EvalContext& context);
Value evaluate_atan2(const EvalContext& context);
Value evaluate_function_power(const EvalContext& context);  // of floats and complex numbers
Value evaluate_complex_sign(const EvalContext& context);
decltype(OpInfo::evaluate) arithmetic_kernel(Opcode opcode);  // arithmetic.cpp
Value evaluate_bitcast_convert(const EvalContext& context);   // bits.cpp; any type
Value evaluate_reduce_precision(const EvalContext& context);
Value evaluate_stochastic_convert(const EvalContext& context);

}  // namespace gspmd
