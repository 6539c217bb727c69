#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Aspects of the shape family: the op table's functions, one file per aspect (shape_infer.cpp,
// shape_factors.cpp, shape_evaluate.cpp, shape_gradient.cpp).
#define GSPMD_SHAPE_OP(op)                         \
  Shape infer_##op(const Node& node);              \
  FactorRule op##_factors(const Node& node);       \
  Value evaluate_##op(const EvalContext& context); \
  std::vector<Node*> op##_gradient(Node& node, Node* cotangent);
GSPMD_SHAPE_OP(reshape)
GSPMD_SHAPE_OP(broadcast)
GSPMD_SHAPE_OP(transpose)
GSPMD_SHAPE_OP(reverse)
GSPMD_SHAPE_OP(concatenate)
GSPMD_SHAPE_OP(pad)
GSPMD_SHAPE_OP(slice)
GSPMD_SHAPE_OP(dynamic_slice)
GSPMD_SHAPE_OP(dynamic_update_slice)
GSPMD_SHAPE_OP(iota)
#undef GSPMD_SHAPE_OP

// Pairs of an operand dim and a result dim that are the same loop in a reshape: sizes equal and the
// products of the dims before them equal, so that neither is merged or split. [2,3,4] -> [6,4]:
// (2,1).
std::vector<std::pair<int64_t, int64_t>> reshape_kept_dims(const Dims& operand, const Dims& result);

}  // namespace gspmd
