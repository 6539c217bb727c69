#include "ops/common/batch.h"

#include "gspmd/ops/builders.h"
#include "ops/convolution/convolution.h"

namespace gspmd {
namespace {

// Puts dim 0 into dim `into` (counted behind it), whose `groups` groups lie one behind the other:
// the new size is groups, batch, rest.
Node* merged_into(Node* x, int64_t into, int64_t groups) {
  if (groups > 1) x = split_dim(x, into + 1, {groups, x->dim(into + 1) / groups});
  const int64_t behind = groups > 1 ? into + 2 : into + 1;  // in front of which the batch goes
  Dims permutation;
  for (int64_t d = 1; d < x->rank(); ++d) {
    if (d == behind) permutation.push_back(0);
    permutation.push_back(d);
  }
  if (behind > 1) x = hlo::transpose(x, std::move(permutation));
  return merge_dims(x, into, groups > 1 ? 3 : 2);
}

// The inverse: dim `from` is groups, batch, rest.
Node* taken_out_of(Node* x, int64_t from, int64_t groups, int64_t batch) {
  const int64_t rest = x->dim(from) / (groups * batch);
  x = split_dim(x, from, {groups, batch, rest});
  x = move_to_front(x, from + 1);
  return merge_dims(x, from + 1, 2);
}

}  // namespace

// One batched operand: its batch goes beside the image's batch, or the kernel's output features,
// within each group. Both: the elements of the batch are groups of features.
std::vector<BatchLeaf> batch_convolution(BatchContext& context, const Node& node) {
  const BatchLeaf& input = operand_leaf(context, node, 0);
  const BatchLeaf& kernel = operand_leaf(context, node, 1);
  const int64_t size = context.size();
  Attributes attrs = node.attrs;
  ConvDims& dims = attrs.conv.edit();
  const int64_t images = dims.batch_group_count, features = dims.feature_group_count;
  if (size == 0)
    return {{hlo::splat(context.computation(), batched_shape(node.shape, size), 0), true}};
  Node *x = input.node, *w = kernel.node;
  int64_t out = dims.output_feature, groups = 1;
  if (input.batched && kernel.batched) {
    const bool of_images = images > 1;
    x = merged_into(x, of_images ? dims.input_batch : dims.input_feature, 1);
    w = merged_into(w, dims.kernel_output_feature, 1);
    (of_images ? dims.batch_group_count : dims.feature_group_count) *= size;
  } else if (input.batched) {
    x = merged_into(x, dims.input_batch, images);
    out = dims.output_batch;
  } else {
    groups = std::max(images, features);
    w = merged_into(w, dims.kernel_output_feature, groups);
  }
  Shape shape = node.shape;
  shape.dims[static_cast<size_t>(out)] *= size;
  Node* const result =
      emit(context.computation(), node.opcode(), {x, w}, std::move(attrs), std::move(shape));
  result->frontend_attributes = node.frontend_attributes;
  return {{taken_out_of(result, out, groups, size), true}};
}

}  // namespace gspmd
