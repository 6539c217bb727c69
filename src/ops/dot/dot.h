#pragma once

#include <optional>

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

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

std::vector<BatchLeaf> batch_dot(BatchContext& context, const Node& node);
std::vector<Node*> dot_gradient(Node& node, Node* cotangent);

// --- lower.cpp

// Dims of a value laid over storage with any strides (elements).
struct ViewDims {
  Dims dims, strides;
};

// A transpose or a reshape: what views are made of.
bool is_view_op(const Node& node);

// The value of `node` as a view of the storage of `source`, reached through transposes and
// reshapes; nullopt where something else lies between or strides cannot say it.
std::optional<ViewDims> view_from(const Node& node, const Node& source);
// The value of `source` as it lies in the storage of `node`, which is made of it by transposes and
// reshapes: where to write `source` so that `node` results.
std::optional<ViewDims> view_into(const Node& source, const Node& node);

PreparedKernel lower_dot(const Node& node);
// Of a kOutput fusion: transposes and reshapes around one dot, all of them strides.
PreparedKernel lower_dot_fusion(const Node& node);

}  // namespace gspmd
