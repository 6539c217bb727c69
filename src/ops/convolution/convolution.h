#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

Value evaluate_convolution(const EvalContext& context);
PreparedKernel lower_convolution(const Node& node);
// Whether there is a kernel for it beside plain loops: of bf16 not on every processor.
bool has_convolution_kernel(const Node& node);
std::vector<BatchLeaf> batch_convolution(BatchContext& context, const Node& node);

// convolution(slice(pad(x, 0))) -> convolution(x) with other padding and base dilation; nullptr
// where `node` is none, or would have no fast kernel. Zeros are left out, not multiplied: by
// infinity too.
Node* fold_padding(Node& node);

// Completion (completion.cpp).
FactorRule convolution_nest(const Node& node, CompletionMode mode);
std::vector<ShardingProposal> convolution_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> convolution_suggestions(const Node& reader, int64_t operand,
                                                       CompletionMode mode);

}  // namespace gspmd
