#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Aspects of the shape family: the op table's functions, one file per aspect (infer.cpp,
// factors.cpp, evaluate.cpp, gradient.cpp).
#define GSPMD_SHAPE_OP(op)                         \
  Shape infer_##op(const Node& node);              \
  FactorRule op##_factors(const Node& node);       \
  Value evaluate_##op(const EvalContext& context); \
  std::vector<Node*> op##_gradient(Node& node, Node* cotangent);
GSPMD_SHAPE_OP(reshape)
GSPMD_SHAPE_OP(broadcast)
GSPMD_SHAPE_OP(transpose)
GSPMD_SHAPE_OP(reverse)
GSPMD_SHAPE_OP(concatenate)
GSPMD_SHAPE_OP(pad)
GSPMD_SHAPE_OP(slice)
GSPMD_SHAPE_OP(dynamic_slice)
GSPMD_SHAPE_OP(dynamic_update_slice)
GSPMD_SHAPE_OP(iota)
#undef GSPMD_SHAPE_OP

// Completion where the nest does not say enough (completion.cpp).
#define GSPMD_FORWARD(op) \
  std::vector<ShardingProposal> op##_forward(const Node& node, CompletionMode mode);
#define GSPMD_SUGGESTIONS(op)                                                          \
  std::vector<OperandSuggestion> op##_suggestions(const Node& reader, int64_t operand, \
                                                  CompletionMode mode);
GSPMD_FORWARD(reshape)
GSPMD_FORWARD(broadcast)
GSPMD_FORWARD(reverse)
GSPMD_FORWARD(concatenate)
GSPMD_FORWARD(dynamic_update_slice)
GSPMD_SUGGESTIONS(reshape)
GSPMD_SUGGESTIONS(broadcast)
GSPMD_SUGGESTIONS(reverse)
GSPMD_SUGGESTIONS(concatenate)
GSPMD_SUGGESTIONS(dynamic_start)  // of dynamic-slice and dynamic-update-slice
#undef GSPMD_FORWARD
#undef GSPMD_SUGGESTIONS

// Starts of each element of a batch (batch.cpp).
std::vector<BatchLeaf> batch_dynamic_slice(BatchContext& context, const Node& node);
std::vector<BatchLeaf> batch_dynamic_update_slice(BatchContext& context, const Node& node);

// Partitioning where the factor rule does not say enough (partition*.cpp).
using MaybePartitioned = std::optional<Partitioned>;
// Shards become shards where every digit of a layout survives; else runs of elements in row-major
// order are exchanged, even where they do not nest.
MaybePartitioned partition_reshape(PartitionContext& context, Node& node);
MaybePartitioned partition_uneven_reshape(PartitionContext& context, Node& node);
MaybePartitioned partition_iota(PartitionContext& context, Node& node);
MaybePartitioned partition_constant(PartitionContext& context, Node& node);
// Equal operands along a split dim, as many for each device: one all-to-all of the stack that they
// are, of the bytes that everybody lacks.
MaybePartitioned partition_concatenate(PartitionContext& context, Node& node);
// A reversal that ends where its parts are, or far away.
MaybePartitioned partition_reverse(PartitionContext& context, Node& node);
// The first elements of a sort; or a few elements of a split dim, each holder giving its part.
MaybePartitioned partition_slice(PartitionContext& context, Node& node);
MaybePartitioned partition_short_slice(PartitionContext& context, Node& node);
// One of several slices of a value.
MaybePartitioned partition_split(PartitionContext& context, Node& node);
// Each holder gives its part of the slice: a sum over devices of the slice, not a gather of the
// dim.
MaybePartitioned partition_dynamic_slice(PartitionContext& context, Node& node);
// Each device takes what of the update falls into its shard: no communication but the update's.
MaybePartitioned partition_dynamic_update_slice(PartitionContext& context, Node& node);

Attributes pad_on_part(const Node& node, const NodePart& part);
Attributes slice_on_part(const Node& node, const NodePart& part);

// Pairs of an operand dim and a result dim that are the same loop in a reshape: sizes equal and the
// products of the dims before them equal, so that neither is merged or split. [2,3,4] -> [6,4]:
// (2,1).
std::vector<std::pair<int64_t, int64_t>> reshape_kept_dims(const Dims& operand, const Dims& result);

}  // namespace gspmd
