#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gspmd/ir/op.h"

namespace gspmd {

// Checks that the ops' shape rules share. All throw UserError with the op's HLO name first; none
// trusts operand counts, attribute values or called computations.

std::string braces(const Dims& dims);  // "{0,2}"

// `max` < 0: any number from `min` on.
void check_operand_count(const Node& node, int64_t min, int64_t max);
inline void check_operand_count(const Node& node, int64_t count) {
  check_operand_count(node, count, count);
}
// Shape of operand i, which has to be there and to be an array.
const Shape& array_operand(const Node& node, int64_t i);
const Shape& scalar_operand(const Node& node, int64_t i);
// The declared shape, which has to be an array without negative dims.
const Shape& declared_array(const Node& node);
// Sizes that cannot be addressed are refused; returns the shape.
Shape checked_size(const Node& node, Shape shape);

// Every entry in [0, rank) and none twice.
void check_dim_list(const Node& node, std::string_view attribute, const Dims& list, int64_t rank);
// The one dim of `dimensions`, of a value of this shape.
int64_t named_dim(const Node& node, const Shape& shape);
void check_ascending(const Node& node, std::string_view attribute, const Dims& list);
void check_same_dims(const Node& node, int64_t a, int64_t b);
void check_same_dtype(const Node& node, int64_t a, int64_t b);
bool contains(const Dims& list, int64_t value);
// Element types of a sum of products, operands 0 and 1: the declared result is of their kind (pred,
// integer, floating, complex), a later one, or integer where they are floating (product_operand).
// Floats may be rounded to narrower ones, others lose no bits (the field's preferred_element_type).
void check_product_types(const Node& node);

// The one called computation, with parameters and a root.
const Computation& called_computation(const Node& node, int64_t index, int64_t count);
void check_parameters(const Node& node, const Computation& callee,
                      const std::vector<Shape>& shapes);
// to_apply of reduce, scatter, all-reduce: (accumulators..., values...) -> accumulators, scalars;
// of one value also a known combiner of wider floats.
void check_combiner_computation(const Node& node, const std::vector<DType>& types);
// n inputs of equal dims, then a scalar of the type of each, which to_apply combines with them. The
// types.
std::vector<DType> check_inputs_and_starts(const Node& node);
// Arrays of these types and dims: a tuple of several, or the only one.
Shape arrays_of(const std::vector<DType>& types, const Dims& dims);

// A tuple of several, or the only one.
Shape tuple_unless_one(std::vector<Shape> shapes);

}  // namespace gspmd
