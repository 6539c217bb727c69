#include "ops/common/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/common/call_elementwise.h"
#include "ops/common/check.h"
#include "ops/reduce/combiner_structure.h"
#include "ops/reduce/form.h"
#include "ops/reduce/reduce.h"

namespace gspmd {
namespace {

// The reduced value again at every element that went into it.
Node* spread(const Node& y, Node* value) {
  Dims kept;
  for (int64_t d = 0; d < y.operand(0)->rank(); ++d)
    if (!contains(y.attrs.dimensions, d)) kept.push_back(d);
  return hlo::broadcast(value, y.operand(0)->dims(), kept);
}

// Elements that equal the extremum share its cotangent equally, an initial value that is computed
// among them.
std::vector<Node*> extremum_cotangents(Node& y, Node* c) {
  Node* const x = y.operand(0);
  Node* const init = y.operand(1);
  const Shape& shape = x->shape;
  const auto equal = [&](Node* value, Node* chosen) {
    return hlo::convert(hlo::compare(value, chosen, Direction::eq), shape.dtype);
  };
  Node* const chosen = equal(x, spread(y, &y));
  Node* count = hlo::reduce_sum(chosen, y.attrs.dimensions);
  Node* starts = nullptr;
  if (!init->op().has(kConstantLike)) {
    starts = equal(y.rank() == 0 ? init : hlo::broadcast(init, y.dims(), {}), &y);
    count = hlo::add(count, starts);
  }
  // None is chosen where a constant won.
  count = hlo::binary(Opcode::maximum, count, hlo::splat(y.parent(), count->shape, 1));
  Node* const share = hlo::divide(c, count);
  Node* const to_x = hlo::multiply(chosen, spread(y, share));
  if (starts == nullptr) return {to_x, nullptr};
  Node* const to_init = hlo::multiply(starts, share);
  return {to_x, y.rank() == 0 ? to_init : hlo::reduce_sum(to_init, all_dims(y.rank()))};
}

std::vector<Node*> reduce_gradient_by(Node& y, Node* c) {
  const std::optional<Combiner> combiner = recognize_combiner(*y.called[0]);
  if (combiner == Combiner::sum)
    return {spread(y, c), y.rank() == 0 ? c : hlo::reduce_sum(c, all_dims(y.rank()))};
  return extremum_cotangents(y, c);
}

// The reduced dims as one, in front.
Node* with_one_dim(const Node& y, Node* x) {
  Dims order = y.attrs.dimensions, kept;
  int64_t count = 1;
  for (const int64_t d : order) count *= x->dim(d);
  for (int64_t d = 0; d < x->rank(); ++d)
    if (!contains(y.attrs.dimensions, d)) {
      order.push_back(d);
      kept.push_back(x->dim(d));
    }
  kept.insert(kept.begin(), count);
  return hlo::reshape(transposed(x, order), kept);
}

// Elements first, first + step, ... of dim 0 before `limit`.
Node* every(Node* x, int64_t first, int64_t limit, int64_t step) {
  Dims starts(x->dims().size(), 0), strides(starts.size(), 1);
  Dims limits = x->dims();
  starts[0] = first;
  limits[0] = limit;
  strides[0] = step;
  return hlo::slice(x, starts, limits, strides);
}

// Neighbours are combined, until one element is left of dim 0.
std::vector<Node*> combined(const Computation& combiner, std::vector<Node*> values) {
  while (values[0]->dim(0) > 1) {
    const int64_t size = values[0]->dim(0), pairs = size / 2 * 2;
    std::vector<Node*> even, odd;
    for (Node* value : values) {
      even.push_back(every(value, 0, pairs, 2));
      odd.push_back(every(value, 1, pairs, 2));
    }
    std::vector<Node*> next = combine_elementwise(combiner, even, odd);
    if (pairs < size)
      for (size_t i = 0; i < next.size(); ++i)
        next[i] = hlo::concatenate({next[i], every(values[i], pairs, size, 1)}, 0);
    values = std::move(next);
  }
  return values;
}

}  // namespace

std::vector<Node*> reduce_gradient(Node& node, Node* cotangent) {
  const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
  return combiner == Combiner::sum ? inexact_only<reduce_gradient_by>(node, cotangent)
                                   : floats_only<reduce_gradient_by>(node, cotangent);
}

Node* separate_reductions(Node& node) {
  if (!node.shape.is_tuple) return nullptr;
  const std::vector<Opcode> ops = separate_ops(*node.called[0]);
  std::vector<Node*> results;
  for (size_t i = 0; i < ops.size(); ++i) {
    Node* const x = node.operands()[i];
    Computation* const by = binary_computation(node.parent().module(), ops[i], x->shape.dtype);
    results.push_back(hlo::reduce(x, node.operands()[ops.size() + i], node.attrs.dimensions, by));
  }
  return ops.empty() ? nullptr : hlo::tuple(node.parent(), results);
}

Node* reduce_form(Node& node) {
  if (Node* const separate = separate_reductions(node)) return separate;
  if (!node.shape.is_tuple) {
    const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
    if (combiner == Combiner::sum || combiner == Combiner::max || combiner == Combiner::min)
      return nullptr;
  }
  const size_t inputs = node.operands().size() / 2;
  const Dims dims = leaf_shapes(node.shape)[0].dims;
  std::vector<Node*> values, results;
  for (size_t i = 0; i < inputs; ++i) {
    Node* const init = node.operands()[inputs + i];
    results.push_back(dims.empty() ? init : hlo::broadcast(init, dims, {}));
    values.push_back(with_one_dim(node, node.operands()[i]));
  }
  if (values[0]->dim(0) > 0) {
    values = combined(*node.called[0], std::move(values));
    for (Node*& value : values) value = hlo::reshape(value, dims);
    results = combine_elementwise(*node.called[0], results, values);
  }
  return node.shape.is_tuple ? hlo::tuple(node.parent(), results) : results[0];
}

}  // namespace gspmd
