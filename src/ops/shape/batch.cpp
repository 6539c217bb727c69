#include "ops/common/batch.h"

#include "gspmd/ops/builders.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

bool any_start_batched(const BatchContext& context, const Node& node, int64_t first) {
  for (int64_t i = first; i < std::ssize(node.operands()); ++i)
    if (operand_leaf(context, node, i).batched) return true;
  return false;
}

// The starts with one of zero in front.
void add_starts(BatchContext& context, const Node& node, int64_t first,
                std::vector<Node*>& operands) {
  const int64_t count = std::ssize(node.operands()) - first;
  const DType dtype = count > 0 ? node.operand(first)->shape.dtype : DType::s32;
  operands.push_back(hlo::scalar(context.computation(), dtype, 0));
  for (int64_t i = 0; i < count; ++i)
    operands.push_back(operand_leaf(context, node, first + i).node);
}

// The dims of `node`'s first operand of which `slice` has less than all.
Dims partial_dims(const Node& node, const Dims& slice) {
  Dims dims;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d)
    if (slice[static_cast<size_t>(d)] != node.operand(0)->dim(d)) dims.push_back(d);
  return dims;
}

// Where the slices start in `dims`, s32[batch, dims]: so that they lie inside.
Node* start_vectors(BatchContext& context, const Node& node, int64_t first, const Dims& slice,
                    const Dims& dims) {
  Computation& c = context.computation();
  const int64_t size = context.size();
  std::vector<Node*> columns;
  for (const int64_t d : dims) {
    Node* start = with_batch(operand_leaf(context, node, first + d), size);
    const int64_t last = node.operand(0)->dim(d) - slice[static_cast<size_t>(d)];
    if (dtype_size(start->shape.dtype) < 4) start = hlo::convert(start, DType::s32);
    Node* const inside = emit(c, Opcode::clamp,
                              {hlo::scalar(c, start->shape.dtype, 0), start,
                               hlo::scalar(c, start->shape.dtype, static_cast<double>(last))},
                              {}, start->shape);
    columns.push_back(hlo::reshape(hlo::convert(inside, DType::s32), {size, 1}));
  }
  return columns.size() == 1 ? columns[0] : hlo::concatenate(columns, 1);
}

// (a, b) -> b.
Computation* second_computation(Module& module, DType dtype) {
  const std::string name = "second_" + std::string(dtype_name(dtype));
  Computation* const known = module.find(name);
  if (known != nullptr && known->parameters().size() == 2 &&
      known->root() == known->parameters()[1] && known->root()->shape == Shape(dtype, {}))
    return known;
  Computation* const c = module.add_computation(name);
  hlo::parameter(*c, 0, Shape(dtype, {}));
  c->set_root(hlo::parameter(*c, 1, Shape(dtype, {})));
  return c;
}

Dims dims_from_one(int64_t rank) {
  Dims dims;
  for (int64_t d = 1; d <= rank; ++d) dims.push_back(d);
  return dims;
}

}  // namespace

// A start for each of the batch: a look-up.
std::vector<BatchLeaf> batch_dynamic_slice(BatchContext& context, const Node& node) {
  const BatchLeaf& x = operand_leaf(context, node, 0);
  const int64_t size = context.size();
  const Dims partial = partial_dims(node, node.dims());
  if (partial.empty()) return {x};
  if (!any_start_batched(context, node, 1)) {
    std::vector<Node*> starts;
    add_starts(context, node, 1, starts);
    return {{hlo::dynamic_slice(x.node, starts, batched_shape(node.shape, size).dims), true}};
  }
  GatherDims dims;
  dims.offset_dims = dims_from_one(node.rank());
  dims.start_index_map = partial;
  dims.index_vector_dim = 1;
  Dims sizes = node.dims();
  if (x.batched) {
    dims.start_index_map = behind_batch(partial);
    dims.operand_batching_dims = dims.start_indices_batching_dims = {0};
    sizes.insert(sizes.begin(), 1);
  }
  Node* const starts = start_vectors(context, node, 1, node.dims(), partial);
  return {{hlo::gather(x.node, starts, std::move(dims), std::move(sizes)), true}};
}

std::vector<BatchLeaf> batch_dynamic_update_slice(BatchContext& context, const Node& node) {
  const int64_t size = context.size();
  const BatchLeaf& update = operand_leaf(context, node, 1);
  const Dims partial = partial_dims(node, node.operand(1)->dims());
  if (partial.empty()) return {update};
  Node* const x = with_batch(operand_leaf(context, node, 0), size);
  Node* const slices = with_batch(update, size);
  if (!any_start_batched(context, node, 2)) {
    std::vector<Node*> starts;
    add_starts(context, node, 2, starts);
    return {{hlo::dynamic_update_slice(x, slices, starts), true}};
  }
  ScatterDims dims;
  dims.update_window_dims = dims_from_one(node.rank());
  dims.scatter_dims_to_operand_dims = behind_batch(partial);
  dims.input_batching_dims = dims.scatter_indices_batching_dims = {0};
  dims.index_vector_dim = 1;
  Attributes attrs;
  attrs.scatter = dims;
  attrs.unique_indices = true;
  Computation& c = context.computation();
  Node* const starts = start_vectors(context, node, 2, node.operand(1)->dims(), partial);
  Computation* const takes_update = second_computation(c.module(), node.shape.dtype);
  return {
      {emit(c, Opcode::scatter, {x, starts, slices}, std::move(attrs), x->shape, {takes_update}),
       true}};
}

}  // namespace gspmd
