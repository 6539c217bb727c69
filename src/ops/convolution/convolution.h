#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

Value evaluate_convolution(const EvalContext& context);
PreparedKernel lower_convolution(const Node& node);
std::vector<BatchLeaf> batch_convolution(BatchContext& context, const Node& node);

// Completion (completion.cpp).
FactorRule convolution_nest(const Node& node, CompletionMode mode);
std::vector<ShardingProposal> convolution_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> convolution_suggestions(const Node& reader, int64_t operand,
                                                       CompletionMode mode);

}  // namespace gspmd
