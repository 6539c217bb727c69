#include "ops/common/batch.h"

#include "gspmd/ops/builders.h"
#include "ops/dot/dot.h"

namespace gspmd {

// Of two batched operands the batch is a batch dim of the product, of one a free dim: what is one
// for all is read as one matrix.
std::vector<BatchLeaf> batch_dot(BatchContext& context, const Node& node) {
  const BatchLeaf& lhs = operand_leaf(context, node, 0);
  const BatchLeaf& rhs = operand_leaf(context, node, 1);
  Attributes attrs = node.attrs;
  DotDims& dims = attrs.dot.edit();
  const auto batches = std::ssize(dims.lhs_batch);
  if (lhs.batched) {
    dims.lhs_batch = behind_batch(dims.lhs_batch);
    dims.lhs_contracting = behind_batch(dims.lhs_contracting);
  }
  if (rhs.batched) {
    dims.rhs_batch = behind_batch(dims.rhs_batch);
    dims.rhs_contracting = behind_batch(dims.rhs_contracting);
  }
  int64_t at = 0;
  Shape shape = node.shape;
  if (lhs.batched && rhs.batched) {
    dims.lhs_batch.insert(dims.lhs_batch.begin(), 0);
    dims.rhs_batch.insert(dims.rhs_batch.begin(), 0);
  } else {
    at = lhs.batched ? batches
                     : batches + std::ssize(free_dims(node.operand(0)->rank(), dims.lhs_batch,
                                                      dims.lhs_contracting));
  }
  shape.dims.insert(shape.dims.begin() + static_cast<std::ptrdiff_t>(at), context.size());
  Node* const product = emit(context.computation(), node.opcode(), {lhs.node, rhs.node},
                             std::move(attrs), std::move(shape));
  product->frontend_attributes = node.frontend_attributes;
  return {{move_to_front(product, at), true}};
}

}  // namespace gspmd
