#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// The dims of one side that are neither batch nor contracting, in order.
Dims free_dims(int64_t rank, const Dims& batch, const Dims& contracting);

Value evaluate_dot(const EvalContext& context);
// --- scaled_dot.cpp
Shape infer_scaled_dot(const Node& node);
FactorRule scaled_dot_factors(const Node& node);
Value evaluate_scaled_dot(const EvalContext& context);

std::vector<Node*> dot_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
