// Ops that begin something and end it later, and ops that only order others: tokens, copies, async
// computations, transfers to and from the host.

#include "gspmd/base/error.h"
#include "ops/check.h"
#include "ops/control.h"
#include "ops/factors.h"
#include "ops/rows.h"
#include "ops/whole_factors.h"

namespace gspmd {
namespace {

bool is_token(const Shape& shape) { return !shape.is_tuple && shape.dtype == DType::token; }

void check_leaf_sizes(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
}

// Element `i` of the tuple that the operand has to be.
const Shape& operand_element(const Node& node, size_t i) {
  check_operand_count(node, 1);
  const Shape& shape = node.operand(0)->shape;
  if (!shape.is_tuple || shape.elements.size() <= i)
    user_error("{}: the operand is {}; it has to be what the op that starts it gives",
               opcode_name(node.opcode()), to_string(shape));
  return shape.elements[i];
}

void check_element(const Node& node, size_t i, const Shape& wanted) {
  if (!node.shape.is_tuple || node.shape.elements.size() <= i ||
      !(node.shape.elements[i] == wanted))
    user_error("{}: element {} of the result {} has to be {}", opcode_name(node.opcode()), i,
               to_string(node.shape), to_string(wanted));
}

Shape infer_after_all(const Node& node) {
  for (const Node* operand : node.operands())
    if (!is_token(operand->shape))
      user_error("after-all: an operand is {}; it takes tokens", to_string(operand->shape));
  return Shape(DType::token, {});
}

Shape infer_add_dependency(const Node& node) {
  check_operand_count(node, 2);
  if (!is_token(node.operand(1)->shape))
    user_error("add-dependency: operand 1 is {}; it has to be a token",
               to_string(node.operand(1)->shape));
  return node.operand(0)->shape;
}

Shape infer_copy_start(const Node& node) {
  check_operand_count(node, 1);
  check_leaf_sizes(node);
  check_element(node, 0, node.operand(0)->shape);
  check_element(node, 1, node.operand(0)->shape);
  return node.shape;
}

Shape infer_copy_done(const Node& node) { return operand_element(node, 0); }

Shape infer_async_start(const Node& node) {
  const Computation& callee = called_computation(node, 0, 1);
  std::vector<Shape> shapes;
  for (const Node* operand : node.operands()) shapes.push_back(operand->shape);
  check_parameters(node, callee, shapes);
  check_leaf_sizes(node);
  check_element(node, 0, Shape::tuple(std::move(shapes)));
  check_element(node, 1, callee.root()->shape);
  return node.shape;
}

Shape infer_async_update(const Node& node) {
  operand_element(node, 1);
  return node.operand(0)->shape;
}

Shape infer_done(const Node& node) { return operand_element(node, 1); }

// What comes from, or goes to, outside of the module: as declared.
Shape infer_transfer(const Node& node) {
  check_leaf_sizes(node);
  return node.shape;
}

Shape infer_domain(const Node& node) {
  check_operand_count(node, 1);
  return node.operand(0)->shape;
}

Value evaluate_after_all(const EvalContext& context) { return zero_value(context.node.shape); }

Value evaluate_copy_start(const EvalContext& context) {
  std::vector<Value> elements{context.operands[0], context.operands[0]};
  for (size_t i = 2; i < context.node.shape.elements.size(); ++i)
    elements.push_back(zero_value(context.node.shape.elements[i]));
  return Value::tuple(std::move(elements));
}

Value evaluate_async_start(const EvalContext& context) {
  return started_value(context.node.shape, {context.operands.begin(), context.operands.end()},
                       context.call(*context.node.called[0], context.operands));
}

Value evaluate_element_0(const EvalContext& context) { return context.operands[0].elements[0]; }
Value evaluate_element_1(const EvalContext& context) { return context.operands[0].elements[1]; }

struct Row {
  Opcode opcode;
  int min_operands, max_operands;
  decltype(OpInfo::infer) infer;
  decltype(OpInfo::evaluate) evaluate;
  uint32_t traits = 0;
  decltype(OpInfo::factors) factors = whole_factors;
};
constexpr Row kRows[] = {
    {Opcode::after_all, 0, -1, infer_after_all, evaluate_after_all},
    {Opcode::add_dependency, 2, 2, infer_add_dependency, evaluate_operand, 0,
     pointwise_first_operand_factors},
    {Opcode::copy_start, 1, 1, infer_copy_start, evaluate_copy_start},
    {Opcode::copy_done, 1, 1, infer_copy_done, evaluate_element_0},
    {Opcode::async_start, 0, -1, infer_async_start, evaluate_async_start},
    {Opcode::async_update, 1, 1, infer_async_update, evaluate_operand},
    {Opcode::async_done, 1, 1, infer_done, evaluate_element_1},
    {Opcode::domain, 1, 1, infer_domain, evaluate_operand, 0, pointwise_factors},
    // Without a host program beside the module there is nothing to run.
    {Opcode::infeed, 0, 1, infer_transfer, nullptr, kSideEffect},
    {Opcode::outfeed, 1, 2, infer_transfer, nullptr, kSideEffect},
    {Opcode::send, 1, 2, infer_transfer, nullptr, kSideEffect},
    {Opcode::send_done, 1, 1, infer_transfer, nullptr, kSideEffect},
    {Opcode::recv, 0, 1, infer_transfer, nullptr, kSideEffect},
    {Opcode::recv_done, 1, 1, infer_transfer, nullptr, kSideEffect},
};

std::vector<OpInfo> build_rows() {
  std::vector<OpInfo> rows;
  for (const Row& row : kRows) {
    OpInfo& info = rows.emplace_back();
    info.opcode = row.opcode;
    info.traits = row.traits | kIntegerPreserving;
    info.min_operands = row.min_operands;
    info.max_operands = row.max_operands;
    info.infer = row.infer;
    info.factors = row.factors;
    info.evaluate = row.evaluate;
  }
  return rows;
}

}  // namespace

Value started_value(const Shape& shape, std::vector<Value> operands, Value result) {
  std::vector<Value> elements{Value::tuple(std::move(operands)), std::move(result)};
  for (size_t i = 2; i < shape.elements.size(); ++i)
    elements.push_back(zero_value(shape.elements[i]));
  return Value::tuple(std::move(elements));
}

std::span<const OpInfo> async_rows() {
  static const std::vector<OpInfo> rows = build_rows();
  return rows;
}

}  // namespace gspmd
