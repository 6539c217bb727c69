#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Completion through single ops, where factors alone do not say it (semantics.md 2.6, 2.7).

using MaybeSharding = std::optional<Sharding>;
using Proposals = std::vector<ShardingProposal>;

// Tuples and what runs computations (propagate_structure.cpp).
Proposals tuple_forward(const Node& node, CompletionMode mode);
MaybeSharding tuple_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals element_forward(const Node& node, CompletionMode mode);
MaybeSharding element_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals same_forward(const Node& node, CompletionMode mode);
MaybeSharding same_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals custom_call_forward(const Node& node, CompletionMode mode);
MaybeSharding custom_call_backward(const Node& node, int64_t operand, CompletionMode mode);
bool custom_call_may_be_tiled(const Node& node, bool spmd);

// Gather and scatter (propagate_index.cpp).
Proposals gather_forward(const Node& node, CompletionMode mode);
MaybeSharding gather_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals scatter_forward(const Node& node, CompletionMode mode);
MaybeSharding scatter_backward(const Node& node, int64_t operand, CompletionMode mode);

}  // namespace gspmd
