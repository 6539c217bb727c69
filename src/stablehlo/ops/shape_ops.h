#pragma once

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {

// StableHLO's broadcast_in_dim: dims of size 1 grow, dims stand in any order.
Node* broadcast_in_dim(OpLowering& op, Node* x, const Dims& result, Dims dims);

// Numpy's broadcasting of operands to one shape; `dims`: which dims of the result those of the
// operand of lower rank are, its last ones where it does not say.
std::vector<Node*> broadcast_together(OpLowering& op, std::vector<Node*> operands,
                                      const std::optional<Dims>& dims);

}  // namespace gspmd::stablehlo
