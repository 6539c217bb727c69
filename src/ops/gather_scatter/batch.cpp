#include "ops/gather_scatter/batch.h"

#include "gspmd/ops/builders.h"

namespace gspmd {

// The batch of the indices is a batch dim of theirs; that of the operand goes with it, or is a dim
// that slices have all of.
std::vector<BatchLeaf> batch_gather(BatchContext& context, const Node& node) {
  const BatchLeaf& operand = operand_leaf(context, node, 0);
  const BatchLeaf& indices = operand_leaf(context, node, 1);
  Attributes attrs = node.attrs;
  GatherDims& dims = attrs.gather.edit();
  dims.offset_dims = behind_batch(dims.offset_dims);
  if (operand.batched) {
    dims.collapsed_slice_dims = behind_batch(dims.collapsed_slice_dims);
    dims.start_index_map = behind_batch(dims.start_index_map);
    dims.operand_batching_dims = behind_batch(dims.operand_batching_dims);
    Dims& sizes = attrs.slice_sizes.edit();
    sizes.insert(sizes.begin(), indices.batched ? 1 : context.size());
  }
  if (indices.batched) {
    dims.start_indices_batching_dims = behind_batch(dims.start_indices_batching_dims);
    ++dims.index_vector_dim;
    attrs.indices_are_sorted = false;
  }
  const auto put_first = [](Dims& list) { list.insert(list.begin(), 0); };
  if (operand.batched && indices.batched) {
    put_first(dims.operand_batching_dims);
    put_first(dims.start_indices_batching_dims);
  } else if (operand.batched) {
    put_first(dims.offset_dims);
  }
  Node* const found = emit(context.computation(), node.opcode(), {operand.node, indices.node},
                           std::move(attrs), batched_shape(node.shape, context.size()));
  found->frontend_attributes = node.frontend_attributes;
  return {{found, true}};
}

// Operands and updates have the batch; with that of the indices it is a batch dim, else a dim of
// the window.
std::vector<BatchLeaf> batch_scatter(BatchContext& context, const Node& node) {
  const auto inputs = std::ssize(node.operands()) / 2;
  const BatchLeaf& indices = operand_leaf(context, node, inputs);
  Attributes attrs = node.attrs;
  ScatterDims& dims = attrs.scatter.edit();
  dims.inserted_window_dims = behind_batch(dims.inserted_window_dims);
  dims.scatter_dims_to_operand_dims = behind_batch(dims.scatter_dims_to_operand_dims);
  if (indices.batched) {
    dims.update_window_dims = behind_batch(dims.update_window_dims);
    dims.input_batching_dims = front_and_behind_batch(dims.input_batching_dims);
    dims.scatter_indices_batching_dims = front_and_behind_batch(dims.scatter_indices_batching_dims);
    ++dims.index_vector_dim;
    attrs.indices_are_sorted = false;
  } else {
    dims.update_window_dims = front_and_behind_batch(dims.update_window_dims);
    dims.input_batching_dims = behind_batch(dims.input_batching_dims);
  }
  std::vector<Node*> operands;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    const BatchLeaf& leaf = operand_leaf(context, node, i);
    operands.push_back(i == inputs ? leaf.node : with_batch(leaf, context.size()));
  }
  Node* const result =
      emit(context.computation(), node.opcode(), std::move(operands), std::move(attrs),
           batched_shape(node.shape, context.size()), node.called);
  result->frontend_attributes = node.frontend_attributes;
  return leaves_of(result, true);
}

}  // namespace gspmd
