#pragma once

#include <functional>

#include "gspmd/ir/op.h"

namespace gspmd {

// Completion through single ops (semantics.md 2.6, 2.7). Forward rules run where the op's level
// allows it, backward rules for a node whose sharding propagates.

using MaybeSharding = std::optional<Sharding>;
using Proposals = std::vector<ShardingProposal>;

// Any op (propagate_aspects.cpp): each operand in turn, or the one that represents them; the same
// sharding for an operand of the result's dims.
Proposals representative_forward(const Node& node, CompletionMode mode);
Proposals pointwise_forward(const Node& node, CompletionMode mode);
MaybeSharding same_dims_backward(const Node& node, int64_t operand, CompletionMode mode);

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

// What moves elements (propagate_shape.cpp).
Proposals reshape_forward(const Node& node, CompletionMode mode);
MaybeSharding reshape_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals broadcast_forward(const Node& node, CompletionMode mode);
MaybeSharding broadcast_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals transpose_forward(const Node& node, CompletionMode mode);
MaybeSharding transpose_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals reverse_forward(const Node& node, CompletionMode mode);
MaybeSharding reverse_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals concatenate_forward(const Node& node, CompletionMode mode);
MaybeSharding concatenate_backward(const Node& node, int64_t operand, CompletionMode mode);
MaybeSharding first_operand_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals dynamic_slice_forward(const Node& node, CompletionMode mode);
MaybeSharding dynamic_slice_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals dynamic_update_slice_forward(const Node& node, CompletionMode mode);
MaybeSharding dynamic_update_slice_backward(const Node& node, int64_t operand, CompletionMode mode);

// What combines elements (propagate_combine.cpp).
Proposals reduce_forward(const Node& node, CompletionMode mode);
MaybeSharding reduce_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals reduce_window_forward(const Node& node, CompletionMode mode);
MaybeSharding reduce_window_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals select_and_scatter_forward(const Node& node, CompletionMode mode);
Proposals sort_forward(const Node& node, CompletionMode mode);
MaybeSharding result_of_same_number(const Node& node, int64_t operand, CompletionMode mode);
Proposals scan_forward(const Node& node, CompletionMode mode);
MaybeSharding scan_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals convolution_forward(const Node& node, CompletionMode mode);
Proposals rng_forward(const Node& node, CompletionMode mode);
MaybeSharding outfeed_backward(const Node& node, int64_t operand, CompletionMode mode);

// Gather and scatter (propagate_index.cpp).
Proposals gather_forward(const Node& node, CompletionMode mode);
MaybeSharding gather_backward(const Node& node, int64_t operand, CompletionMode mode);
Proposals scatter_forward(const Node& node, CompletionMode mode);
MaybeSharding scatter_backward(const Node& node, int64_t operand, CompletionMode mode);

// The window of a convolution is smaller than its result, so that a shard of the input gives a
// shard of the result.
bool has_small_kernel(const Node& node);

}  // namespace gspmd
