#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

Value evaluate_convolution(const EvalContext& context);
PreparedKernel lower_convolution(const Node& node);

// The window is smaller than the result, so that a shard of the input gives a shard of the result.
bool has_small_kernel(const Node& node);
// What is left of completion forward where it is no einsum.
std::vector<ShardingProposal> convolution_forward(const Node& node, CompletionMode mode);

}  // namespace gspmd
