#pragma once

#include <functional>

#include "gspmd/ir/op.h"

namespace gspmd {

// Completion rules that ops of several families share; those of one family are beside it.

using MaybeSharding = std::optional<Sharding>;
using Proposals = std::vector<ShardingProposal>;

// Each operand in turn, or the one that represents them.
Proposals representative_forward(const Node& node, CompletionMode mode);
Proposals pointwise_forward(const Node& node, CompletionMode mode);
// The same sharding for an operand of the result's dims; for operand 0 alone; for the operand of
// the result leaf's number.
MaybeSharding same_dims_backward(const Node& node, int64_t operand, CompletionMode mode);
MaybeSharding first_operand_backward(const Node& node, int64_t operand, CompletionMode mode);
MaybeSharding same_number_backward(const Node& node, int64_t operand, CompletionMode mode);
std::vector<OperandSuggestion> same_number_suggestions(const Node& reader, int64_t operand,
                                                       CompletionMode mode);
// The operand's whole sharding, tuples too.
Proposals same_forward(const Node& node, CompletionMode mode);
MaybeSharding same_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals nothing_forward(const Node& node, CompletionMode mode);
MaybeSharding nothing_backward(const Node& node, int64_t operand, CompletionMode mode);

bool never_tiled(const Node& node, bool spmd);
bool in_spmd_only(const Node& node, bool spmd);
bool pointwise_may_be_tiled(const Node& node, bool spmd);

// Of each operand below `count` what `rule` makes of its sharding.
Proposals for_every_result(const Node& node, int64_t count,
                           const std::function<MaybeSharding(const Node&, const Sharding&)>& rule);
int64_t pairs_of(const Node& node);  // of ops that take n inputs and n more operands
Dims kept_dims(const Node& node, const Dims& removed);

// Element by element; what has other dims than its operands is not laid out by completion.
inline constexpr CompletionRules kPointwiseCompletion{pointwise_forward, same_dims_backward,
                                                      pointwise_may_be_tiled};
inline constexpr CompletionRules kNoCompletion{nothing_forward, nothing_backward};

}  // namespace gspmd
