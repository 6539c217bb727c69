#include "ops/control.h"

#include "gspmd/base/error.h"
#include "ops/check.h"
#include "ops/factors.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

Shape infer_tuple(const Node& node) {
  std::vector<Shape> elements;
  for (const Node* operand : node.operands()) elements.push_back(operand->shape);
  return Shape::tuple(std::move(elements));
}

Shape infer_get_tuple_element(const Node& node) {
  check_operand_count(node, 1);
  const Shape& tuple = node.operand(0)->shape;
  if (!tuple.is_tuple)
    user_error("get-tuple-element: the operand is {}, it has to be a tuple", to_string(tuple));
  if (node.attrs.index < 0 || node.attrs.index >= static_cast<int64_t>(tuple.elements.size()))
    user_error("get-tuple-element: index={} is outside the {} elements of {}", node.attrs.index,
               tuple.elements.size(), to_string(tuple));
  return tuple.elements[static_cast<size_t>(node.attrs.index)];
}

Shape infer_while(const Node& node) {
  check_operand_count(node, 1);
  const Shape& state = node.operand(0)->shape;
  const Computation& condition = called_computation(node, 0, 2);
  const Computation& body = called_computation(node, 1, 2);
  check_parameters(node, condition, {state});
  check_parameters(node, body, {state});
  if (!(condition.root()->shape == Shape(DType::pred, {})))
    user_error("while: condition {} returns {}, it has to return pred[]", condition.name(),
               to_string(condition.root()->shape));
  if (!(body.root()->shape == state))
    user_error("while: body {} returns {}, the state is {}", body.name(),
               to_string(body.root()->shape), to_string(state));
  return state;
}

Shape infer_call(const Node& node) {
  const Computation& callee = called_computation(node, 0, 1);
  std::vector<Shape> shapes;
  for (const Node* operand : node.operands()) shapes.push_back(operand->shape);
  check_parameters(node, callee, shapes);
  return callee.root()->shape;
}

Shape infer_optimization_barrier(const Node& node) {
  check_operand_count(node, 1);
  return node.operand(0)->shape;
}

// Of a pred two branches, true first; of a number any. Each takes one operand.
Shape infer_conditional(const Node& node) {
  const auto branches = static_cast<int64_t>(node.called.size());
  if (branches < 1) user_error("conditional: it has no branch computation");
  check_operand_count(node, branches + 1);
  const Shape& selector = scalar_operand(node, 0);
  if (selector.dtype != DType::pred && selector.dtype != DType::s32)
    user_error("conditional: the selector is {}; it has to be pred[] or s32[]",
               to_string(selector));
  if (selector.dtype == DType::pred && branches != 2)
    user_error("conditional: {} branches for a selector pred[]; it takes two", branches);
  for (int64_t i = 0; i < branches; ++i) {
    const Computation& branch = called_computation(node, i, branches);
    check_parameters(node, branch, {node.operand(i + 1)->shape});
    if (!(branch.root()->shape == node.called[0]->root()->shape))
      user_error("conditional: branch {} returns {}, branch {} returns {}; all return one shape",
                 node.called[0]->name(), to_string(node.called[0]->root()->shape), branch.name(),
                 to_string(branch.root()->shape));
  }
  return node.called[0]->root()->shape;
}

// Tuples have no dims of their own: completion looks through them leaf by leaf.
FactorRule barrier_factors(const Node& node) {
  if (!node.shape.is_tuple) return pointwise_first_operand_factors(node);
  FactorRule rule = no_factors(node);
  rule.forward_level = rule.backward_level = 0;
  return rule;
}

OpInfo row(Opcode opcode, int min_operands, int max_operands, decltype(OpInfo::infer) infer,
           decltype(OpInfo::evaluate) evaluate, decltype(OpInfo::gradient) gradient) {
  OpInfo info;
  info.opcode = opcode;
  info.traits = kIntegerPreserving;
  info.min_operands = min_operands;
  info.max_operands = max_operands;
  info.infer = infer;
  info.evaluate = evaluate;
  info.gradient = gradient;
  return info;
}

std::vector<OpInfo> build_rows() {
  std::vector<OpInfo> rows{
      row(Opcode::tuple, 0, -1, infer_tuple, evaluate_tuple, tuple_gradient),
      row(Opcode::get_tuple_element, 1, 1, infer_get_tuple_element, evaluate_get_tuple_element,
          get_tuple_element_gradient),
      row(Opcode::while_, 1, 1, infer_while, evaluate_while, nullptr),
      row(Opcode::conditional, 2, -1, infer_conditional, evaluate_conditional, nullptr),
      row(Opcode::call, 0, -1, infer_call, evaluate_call, nullptr),
      row(Opcode::fusion, 0, -1, infer_call, evaluate_call, nullptr),
      row(Opcode::optimization_barrier, 1, 1, infer_optimization_barrier, evaluate_operand,
          optimization_barrier_gradient),
      row(Opcode::custom_call, 0, -1, infer_custom_call, evaluate_custom_call,
          custom_call_gradient),
  };
  rows[6].traits |= kLinear;
  rows[6].factors = barrier_factors;
  rows[7].factors = custom_call_factors;
  return rows;
}

}  // namespace

std::span<const OpInfo> control_rows() {
  static const std::vector<OpInfo> rows = build_rows();
  return rows;
}

}  // namespace gspmd
