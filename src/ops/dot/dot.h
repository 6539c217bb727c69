#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// The dims of one side that are neither batch nor contracting, in order.
Dims free_dims(int64_t rank, const Dims& batch, const Dims& contracting);

// One loop of a product, by the dims that it goes along; -1: an array does not have it.
struct DotLoop {
  int64_t lhs = -1, rhs = -1, out = -1;
};
// Batch, left free, right free (so are the result's dims, from `first_out` on), contracting. Dims
// of the right side in `rhs_group` are none of them.
std::vector<DotLoop> dot_loops(const Node& node, const Dims& rhs_group = {}, int64_t first_out = 0);
int64_t size_of(const Node& node, const DotLoop& loop);
// Makes the loop a factor of all who have it.
void add_loop(FactorRule& rule, const Node& node, const DotLoop& loop, FactorKind kind);
// Batch (contracting) dims of the two sides pair up one by one, sizes equal.
void check_pairs(const Node& node, const char* kind, const Dims& lhs_dims, const Dims& rhs_dims);

Value evaluate_dot(const EvalContext& context);
// --- scaled_dot.cpp
Shape infer_scaled_dot(const Node& node);
FactorRule scaled_dot_factors(const Node& node);
Value evaluate_scaled_dot(const EvalContext& context);

std::vector<Node*> dot_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
