#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Gather and scatter; scatter takes n operands, the indices, n updates.
Shape infer_gather(const Node& node);
Shape infer_scatter(const Node& node);
FactorRule gather_factors(const Node& node);
FactorRule scatter_factors(const Node& node);
Value evaluate_gather(const EvalContext& context);
Value evaluate_scatter(const EvalContext& context);
PreparedKernel lower_gather(const Node& node);
PreparedKernel lower_scatter(const Node& node);
std::vector<Node*> gather_gradient(Node& node, Node* cotangent);
std::vector<Node*> scatter_gradient(Node& node, Node* cotangent);

std::vector<ShardingProposal> gather_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> gather_suggestions(const Node& reader, int64_t operand,
                                                  CompletionMode mode);
std::vector<ShardingProposal> scatter_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> scatter_suggestions(const Node& reader, int64_t operand,
                                                   CompletionMode mode);
// Looks up and writes at indices, split in the ways of nest.h; never nullopt.
std::optional<Partitioned> partition_gather(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_scatter(PartitionContext& context, Node& node);

// How the dims of the sliced array (operand of a gather, of a scatter), the indices and the sliced
// result (of a gather; updates of a scatter) belong together; both ops are this one picture.
struct SliceDims {
  Dims window_result;     // result dims that run inside a slice, ascending ...
  Dims window_operand;    // ... and the operand dim that each runs over
  Dims batch_result;      // result dims that run over the slices, ascending ...
  Dims batch_indices;     // ... and the dim of the indices that each is
  Dims index_to_operand;  // component of an index vector -> operand dim
  Dims operand_batching;  // operand dims paired ...
  Dims indices_batching;  // ... with dims of the indices
  int64_t index_vector_dim = 0;
};
// The attributes must have passed infer.
SliceDims gather_slice_dims(const Node& node);
SliceDims scatter_slice_dims(const Node& node);

}  // namespace gspmd
