#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Completion rules that ops of several families share; those of one family are beside it.

using MaybeSharding = std::optional<Sharding>;
using Proposals = std::vector<ShardingProposal>;
using Suggestions = std::vector<OperandSuggestion>;

// What the loop nest says, by the policy of the op's row: to the result; to an operand of the
// result, then of the other operands where they confer. `nest`: for callers that have it already.
Proposals nest_forward(const Node& node, CompletionMode mode, FactorRule nest = {});
Suggestions nest_suggestions(const Node& reader, int64_t operand, CompletionMode mode,
                             FactorRule nest = {});

// The operand that represents all, or each in turn.
Proposals representative_forward(const Node& node, CompletionMode mode);
Proposals pointwise_forward(const Node& node, CompletionMode mode);
// The same sharding for an operand of the result's dims; for the operand of the result leaf's
// number.
Suggestions same_dims_suggestions(const Node& reader, int64_t operand, CompletionMode mode);
Suggestions same_number_suggestions(const Node& reader, int64_t operand, CompletionMode mode);
// The operand's whole sharding, tuples too.
Proposals same_forward(const Node& node, CompletionMode mode);
Suggestions same_suggestions(const Node& reader, int64_t operand, CompletionMode mode);

bool never_tiled(const Node& node, bool spmd);
bool in_spmd_only(const Node& node, bool spmd);
bool pointwise_may_be_tiled(const Node& node, bool spmd);

int64_t pairs_of(const Node& node);        // of ops that take n inputs and n more operands
Suggestions only(MaybeSharding sharding);  // one of the result, where there is one
Dims kept_dims(const Node& node, const Dims& removed);

// Element by element; what has other dims than its operands is not laid out by completion.
inline constexpr CompletionRules kPointwiseCompletion{pointwise_forward, same_dims_suggestions,
                                                      pointwise_may_be_tiled};
inline constexpr CompletionRules kNoCompletion{};

}  // namespace gspmd
