// Ops that begin something and end it later, and ops that only order others: tokens, copies, async
// computations, transfers to and from the host.

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/whole_factors.h"
#include "ops/control/control.h"
#include "ops/rows.h"

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

MaybeSharding outfeed_backward(const Node& node, int64_t operand, CompletionMode) {
  if (operand != 0 || !node.sharding) return std::nullopt;
  if (!node.sharding->is_tuple()) return node.sharding;
  const Shape& value = node.operand(0)->shape;
  const std::vector<Sharding>& leaves = node.sharding->elements();
  if (!value.is_tuple) return leaves.at(0);
  const int64_t count = leaf_count(value);
  if (count > static_cast<int64_t>(leaves.size())) return std::nullopt;
  return Sharding::tuple({leaves.begin(), leaves.begin() + count});
}

const OpInfo kRows[] = {
    {.opcode = Opcode::after_all,
     .traits = kIntegerPreserving,
     .max_operands = -1,
     .infer = infer_after_all,
     .factors = whole_factors,
     .evaluate = evaluate_after_all,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::add_dependency,
     .traits = kIntegerPreserving,
     .min_operands = 2,
     .max_operands = 2,
     .infer = infer_add_dependency,
     .factors = pointwise_first_operand_factors,
     .evaluate = evaluate_operand,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::copy_start,
     .traits = kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_copy_start,
     .factors = whole_factors,
     .evaluate = evaluate_copy_start,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::copy_done,
     .traits = kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_copy_done,
     .factors = whole_factors,
     .evaluate = evaluate_element_0,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::async_start,
     .traits = kIntegerPreserving,
     .max_operands = -1,
     .infer = infer_async_start,
     .factors = whole_factors,
     .evaluate = evaluate_async_start,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::async_update,
     .traits = kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_async_update,
     .factors = whole_factors,
     .evaluate = evaluate_operand,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::async_done,
     .traits = kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_done,
     .factors = whole_factors,
     .evaluate = evaluate_element_1,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::domain,
     .traits = kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_domain,
     .factors = pointwise_factors,
     .evaluate = evaluate_operand,
     .completion = kPointwiseCompletion},
    // Without a host program beside the module there is nothing to run.
    {.opcode = Opcode::infeed,
     .traits = kSideEffect | kIntegerPreserving,
     .max_operands = 1,
     .infer = infer_transfer,
     .factors = whole_factors,
     .completion = kNoCompletion},
    {.opcode = Opcode::outfeed,
     .traits = kSideEffect | kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 2,
     .infer = infer_transfer,
     .factors = whole_factors,
     .completion = {nothing_forward, outfeed_backward, never_tiled}},
    {.opcode = Opcode::send,
     .traits = kSideEffect | kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 2,
     .infer = infer_transfer,
     .factors = whole_factors,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::send_done,
     .traits = kSideEffect | kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_transfer,
     .factors = whole_factors,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::recv,
     .traits = kSideEffect | kIntegerPreserving,
     .max_operands = 1,
     .infer = infer_transfer,
     .factors = whole_factors,
     .completion = kPointwiseCompletion},
    {.opcode = Opcode::recv_done,
     .traits = kSideEffect | kIntegerPreserving,
     .min_operands = 1,
     .max_operands = 1,
     .infer = infer_transfer,
     .factors = whole_factors,
     .completion = kPointwiseCompletion},
};

}  // namespace

Value started_value(const Shape& shape, std::vector<Value> operands, Value result) {
  std::vector<Value> elements{Value::tuple(std::move(operands)), std::move(result)};
  for (size_t i = 2; i < shape.elements.size(); ++i)
    elements.push_back(zero_value(shape.elements[i]));
  return Value::tuple(std::move(elements));
}

std::span<const OpInfo> async_rows() { return kRows; }

}  // namespace gspmd
