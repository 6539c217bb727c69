#include "gspmd/ops/builders.h"
#include "ops/batch_norm/batch_norm.h"

namespace gspmd {
namespace {

// [batch, ..., features, ...] to [..., batch * features, ...].
Node* into_features(Node* x, int64_t feature) {
  Dims permutation;
  for (int64_t d = 1; d < x->rank(); ++d) {
    if (d == feature + 1) permutation.push_back(0);
    permutation.push_back(d);
  }
  if (feature > 0) x = hlo::transpose(x, std::move(permutation));
  return merge_dims(x, feature, 2);
}

}  // namespace

// Features of one element of the batch behind those of the other: each has numbers of its own.
std::vector<BatchLeaf> batch_batch_norm(BatchContext& context, const Node& node) {
  const int64_t size = context.size(), rank = node.operand(0)->rank();
  const auto feature_of = [&](int64_t value_rank) {
    return value_rank == rank ? node.attrs.index : int64_t(0);
  };
  std::vector<Node*> operands;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i)
    operands.push_back(into_features(with_batch(operand_leaf(context, node, i), size),
                                     feature_of(node.operand(i)->rank())));
  const auto wider = [&](Shape shape) {
    shape.dims[static_cast<size_t>(feature_of(shape.rank()))] *= size;
    return shape;
  };
  Shape shape = node.shape;
  if (shape.is_tuple)
    for (Shape& element : shape.elements) element = wider(element);
  else
    shape = wider(shape);
  Node* const normed =
      emit(context.computation(), node.opcode(), std::move(operands), node.attrs, std::move(shape));
  std::vector<BatchLeaf> results;
  for (Node* leaf : hlo::leaves(normed)) {
    const int64_t feature = feature_of(leaf->rank());
    leaf = split_dim(leaf, feature, {size, size == 0 ? 0 : leaf->dim(feature) / size});
    results.push_back({move_to_front(leaf, feature), true});
  }
  return results;
}

}  // namespace gspmd
