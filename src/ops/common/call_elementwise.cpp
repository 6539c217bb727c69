#include "ops/common/call_elementwise.h"

#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

bool is_of_scalars(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape))
    if (leaf.rank() != 0) return false;
  return true;
}

Node* emit_on_arrays(const Node& node, Computation& c, const Dims& dims,
                     std::vector<Node*> operands) {
  if (node.is(Opcode::call) || node.is(Opcode::fusion))
    return call_elementwise(*node.called.at(0), operands);
  if (node.is(Opcode::tuple)) return hlo::tuple(c, std::move(operands));
  if (node.is(Opcode::get_tuple_element))
    return hlo::get_tuple_element(operands[0], node.attrs.index);
  if (node.op().has(kConstantLike)) {
    Node* const scalar = emit(c, node.opcode(), {}, node.attrs, node.shape);
    return dims.empty() ? scalar : hlo::broadcast(scalar, dims, {});
  }
  // Between scalars these change nothing.
  if (node.op().has(kDataMovement) && operands.size() == 1) return operands[0];
  if (!node.op().has(kElementwise) && !node.op().has(kAlias)) return nullptr;
  return emit(c, node.opcode(), std::move(operands), node.attrs, Shape(node.shape.dtype, dims));
}

}  // namespace

Node* call_elementwise(const Computation& scalars, const std::vector<Node*>& arguments) {
  if (arguments.empty()) return nullptr;  // there are no dims that it could be of
  Computation& c = arguments[0]->parent();
  const Dims& dims = arguments[0]->dims();
  std::unordered_map<const Node*, Node*> made;
  for (const std::unique_ptr<Node>& node : scalars.nodes()) {
    if (!is_of_scalars(*node)) return nullptr;
    if (node->is(Opcode::parameter)) {
      made[node.get()] = arguments.at(static_cast<size_t>(node->attrs.index));
      continue;
    }
    std::vector<Node*> operands;
    for (const Node* operand : node->operands()) operands.push_back(made.at(operand));
    Node* const copy = emit_on_arrays(*node, c, dims, std::move(operands));
    if (copy == nullptr) return nullptr;
    made[node.get()] = copy;
  }
  return made.at(scalars.root());
}

std::vector<Node*> combine_elementwise(const Computation& combiner, const std::vector<Node*>& a,
                                       const std::vector<Node*>& b) {
  std::vector<Node*> arguments = a;
  arguments.insert(arguments.end(), b.begin(), b.end());
  Node* const result = call_elementwise(combiner, arguments);
  if (result == nullptr)
    user_error("\"{}\" has no gradient: it is not made of elementwise ops on scalars",
               combiner.name());
  return hlo::leaves(result);
}

}  // namespace gspmd
