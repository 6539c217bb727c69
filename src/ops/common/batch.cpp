#include "ops/common/batch.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/counted_loop.h"

namespace gspmd {

const BatchLeaf& operand_leaf(const BatchContext& context, const Node& node, int64_t operand) {
  return context.leaves(*node.operand(operand)).at(0);
}

bool any_batched(const std::vector<BatchLeaf>& leaves) {
  return std::any_of(leaves.begin(), leaves.end(), [](const BatchLeaf& l) { return l.batched; });
}

std::vector<Node*> nodes_of(const std::vector<BatchLeaf>& leaves) {
  std::vector<Node*> nodes;
  for (const BatchLeaf& leaf : leaves) nodes.push_back(leaf.node);
  return nodes;
}

std::vector<BatchLeaf> leaves_of(Node* value, bool batched) {
  std::vector<BatchLeaf> leaves;
  for (Node* leaf : hlo::leaves(value)) leaves.push_back({leaf, batched});
  return leaves;
}

Shape batched_shape(const Shape& shape, int64_t size) {
  Shape result = shape;
  for (Shape& element : result.elements) element = batched_shape(element, size);
  if (!shape.is_tuple) result.dims.insert(result.dims.begin(), size);
  return result;
}

Node* with_batch(const BatchLeaf& leaf, int64_t size) {
  if (leaf.batched) return leaf.node;
  Dims dimensions;
  for (int64_t d = 1; d <= leaf.node->rank(); ++d) dimensions.push_back(d);
  return hlo::broadcast(leaf.node, batched_shape(leaf.node->shape, size).dims, dimensions);
}

Dims behind_batch(Dims dims) {
  for (int64_t& d : dims) ++d;
  return dims;
}

Dims front_and_behind_batch(Dims dims) {
  dims = behind_batch(std::move(dims));
  dims.insert(dims.begin(), 0);
  return dims;
}

Node* move_to_front(Node* x, int64_t dim) {
  if (dim == 0) return x;
  Dims permutation{dim};
  for (int64_t d = 0; d < x->rank(); ++d)
    if (d != dim) permutation.push_back(d);
  return hlo::transpose(x, std::move(permutation));
}

Node* split_dim(Node* x, int64_t dim, const Dims& sizes) {
  Dims dims = x->dims();
  const auto at = dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dim));
  dims.insert(at, sizes.begin(), sizes.end());
  return hlo::reshape(x, std::move(dims));
}

Node* merge_dims(Node* x, int64_t dim, int64_t count) {
  Dims dims = x->dims();
  const auto first = dims.begin() + static_cast<std::ptrdiff_t>(dim);
  for (int64_t i = 1; i < count; ++i) *first *= *(first + static_cast<std::ptrdiff_t>(i));
  dims.erase(first + 1, first + static_cast<std::ptrdiff_t>(count));
  return hlo::reshape(x, std::move(dims));
}

Attributes attributes_behind_batch(const Node& node, int64_t size) {
  Attributes attrs = node.attrs;
  attrs.dimensions = behind_batch(attrs.dimensions);
  const auto begin_with = [](auto& list, auto first) {
    if (!list.empty()) list.edit().insert(list.edit().begin(), first);
  };
  begin_with(attrs.starts, int64_t(0));
  begin_with(attrs.limits, size);
  begin_with(attrs.strides, int64_t(1));
  begin_with(attrs.slice_sizes, size);
  begin_with(attrs.padding, PaddingDim{});
  begin_with(attrs.window, WindowDim{});
  return attrs;
}

namespace {

[[noreturn]] void no_rule(const Node& node, const char* why) {
  user_error("{}: \"{}\" {} cannot be batched by vmap: {}; take it out of the function or use map",
             opcode_name(node.opcode()), node.name(), to_string(node.shape), why);
}

Node* emit_batched(BatchContext& context, const Node& node, std::vector<Node*> operands,
                   Attributes attrs) {
  const Shape shape = batched_shape(node.shape, context.size());
  Node* const batched = emit(context.computation(), node.opcode(), std::move(operands),
                             std::move(attrs), shape, node.called);
  if (!(batched->shape == shape)) no_rule(node, "its result does not keep the batch");
  batched->frontend_attributes = node.frontend_attributes;
  return batched;
}

std::vector<BatchLeaf> batch_elementwise(BatchContext& context, const Node& node) {
  const int64_t size = context.size();
  const Dims dims = batched_shape(node.shape, size).dims;
  std::vector<Node*> operands;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    const BatchLeaf& leaf = operand_leaf(context, node, i);
    const bool scalar = node.operand(i)->rank() == 0 && node.rank() > 0;
    if (!scalar)
      operands.push_back(with_batch(leaf, size));
    else
      operands.push_back(leaf.batched ? hlo::broadcast(leaf.node, dims, {0}) : leaf.node);
  }
  return leaves_of(emit_batched(context, node, std::move(operands), node.attrs), true);
}

// Whether dim 0 of all that has dims is one loop, of nothing else.
bool front_is_a_loop(const Node& node) {
  const FactorRule rule = node.op().factors(node);
  int64_t front = FactorRule::kNone;
  const auto fits = [&](const std::vector<int64_t>& dims) {
    if (dims.empty()) return true;
    if (front == FactorRule::kNone) front = dims[0];
    return front != FactorRule::kNone && dims[0] == front &&
           std::count(dims.begin(), dims.end(), front) == 1;
  };
  for (const std::vector<int64_t>& dims : rule.results)
    if (dims.empty() || !fits(dims)) return false;
  if (!std::all_of(rule.operands.begin(), rule.operands.end(), fits)) return false;
  return front != FactorRule::kNone &&
         rule.factors[static_cast<size_t>(front)].kind == FactorKind::pass;
}

}  // namespace

std::vector<BatchLeaf> batch_in_front(BatchContext& context, const Node& node, Attributes attrs,
                                      bool scalars) {
  std::vector<Node*> operands;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    const BatchLeaf& leaf = operand_leaf(context, node, i);
    const bool stays = !scalars && node.operand(i)->rank() == 0;
    operands.push_back(stays ? leaf.node : with_batch(leaf, context.size()));
  }
  return leaves_of(emit_batched(context, node, std::move(operands), std::move(attrs)), true);
}

std::vector<BatchLeaf> batch_in_loop(BatchContext& context, const Node& node) {
  Computation& c = context.computation();
  const int64_t size = context.size();
  std::vector<BatchLeaf> given;
  for (const Node* operand : node.operands()) {
    const std::vector<BatchLeaf>& leaves = context.leaves(*operand);
    given.insert(given.end(), leaves.begin(), leaves.end());
  }
  std::vector<Node*> state = nodes_of(given);
  for (const Shape& leaf : leaf_shapes(node.shape))
    state.push_back(hlo::splat(c, batched_shape(leaf, size), 0));
  const auto step = [&](Computation& body, std::vector<Node*> now, Node* number) {
    size_t next = 0;
    std::vector<Node*> operands;
    for (const Node* operand : node.operands()) {
      std::vector<Node*> slices;
      for (const Shape& leaf : leaf_shapes(operand->shape)) {
        Node* const all = now[next];
        slices.push_back(given[next++].batched ? read_step(all, leaf, number) : all);
      }
      operands.push_back(hlo::from_leaves(body, operand->shape, slices));
    }
    Node* const one =
        emit(body, node.opcode(), std::move(operands), node.attrs, node.shape, node.called);
    for (Node* leaf : hlo::leaves(one)) {
      now[next] = write_step(now[next], leaf, number);
      ++next;
    }
    return now;
  };
  state = state_after_loop(c, "batch", size, std::move(state), step);
  std::vector<BatchLeaf> results;
  for (size_t i = given.size(); i < state.size(); ++i) results.push_back({state[i], true});
  return results;
}

std::vector<BatchLeaf> batch_by_nest(BatchContext& context, const Node& node) {
  const OpInfo& op = node.op();
  if (op.has(kElementwise)) return batch_elementwise(context, node);
  if (op.factors == nullptr || op.has(kSideEffect)) no_rule(node, "it has no rule");
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    if (node.operand(i)->shape.is_tuple) no_rule(node, "it has no rule");
    if (node.operand(i)->rank() == 0 && operand_leaf(context, node, i).batched)
      return batch_in_loop(context, node);
  }
  const std::vector<BatchLeaf> results =
      batch_in_front(context, node, attributes_behind_batch(node, context.size()), false);
  const Node* emitted = results.at(0).node;
  if (node.shape.is_tuple) emitted = emitted->operand(0);
  if (!front_is_a_loop(*emitted)) no_rule(node, "its loops do not say how");
  return results;
}

std::vector<BatchLeaf> refuse_batch(BatchContext&, const Node& node) {
  no_rule(node, "it has no rule");
}

std::vector<BatchLeaf> batch_as_it_is(BatchContext& context, const Node& node) {
  return batch_in_front(context, node, node.attrs, true);
}

std::vector<BatchLeaf> batch_with_dimensions(BatchContext& context, const Node& node) {
  Attributes attrs = node.attrs;
  attrs.dimensions = front_and_behind_batch(attrs.dimensions);
  return batch_in_front(context, node, std::move(attrs), true);
}

std::vector<BatchLeaf> batch_shifted(BatchContext& context, const Node& node) {
  return batch_in_front(context, node, attributes_behind_batch(node, context.size()), true);
}

}  // namespace gspmd
