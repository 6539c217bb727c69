#include "ops/common/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
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

// Elements that equal the extremum share its cotangent equally.
Node* extremum_cotangent(Node& y, Node* c) {
  Node* const x = y.operand(0);
  const Shape& shape = x->shape;
  Node* const chosen = hlo::convert(hlo::compare(x, spread(y, &y), Direction::eq), shape.dtype);
  Node* const ties = hlo::reduce_sum(chosen, y.attrs.dimensions);
  // None is chosen where the initial value won.
  Node* const count = hlo::binary(Opcode::maximum, ties, hlo::splat(y.parent(), ties->shape, 1));
  return hlo::binary(Opcode::multiply, chosen, spread(y, hlo::binary(Opcode::divide, c, count)));
}

std::vector<Node*> gradient(Node& y, Node* c) {
  const std::optional<Combiner> combiner = recognize_combiner(*y.called[0]);
  if (combiner == Combiner::sum)
    return {spread(y, c), y.rank() == 0 ? c : hlo::reduce_sum(c, all_dims(y.rank()))};
  if (combiner != Combiner::max && combiner != Combiner::min)
    user_error("reduce: \"{}\" has no gradient: its combiner {} is neither sum, max nor min",
               y.name(), combiner ? std::string(combiner_name(*combiner)) : y.called[0]->name());
  if (!y.operand(1)->op().has(kConstantLike))
    user_error(
        "reduce: \"{}\" has no gradient: the initial value of its {} is computed; use a constant",
        y.name(), combiner_name(*combiner));
  return {extremum_cotangent(y, c), nullptr};
}

}  // namespace

std::vector<Node*> reduce_gradient(Node& node, Node* cotangent) {
  if (node.shape.is_tuple)
    user_error(
        "reduce: \"{}\" has no gradient: it reduces {} arrays together; reduce them one by one",
        node.name(), node.operands().size() / 2);
  return floats_only<gradient>(node, cotangent);
}

}  // namespace gspmd
