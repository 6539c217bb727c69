// Ops that begin something and end it later, and ops that only order others: tokens, copies, async
// computations, transfers to and from the host.

#include <algorithm>
#include <utility>

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/control/control.h"
#include "ops/control/gradient.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

bool is_token(const Shape& shape) { return !shape.is_tuple && shape.dtype == DType::token; }

void check_leaf_sizes(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
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

std::vector<Shape> shapes_of(const std::vector<Node*>& nodes) {
  std::vector<Shape> shapes;
  for (const Node* node : nodes) shapes.push_back(node->shape);
  return shapes;
}

// The start may bind the first operands only; updates bind the others. Element 0 holds those that
// are bound, or has the types of all from the start.
Shape infer_async_start(const Node& node) {
  const Computation& callee = called_computation(node, 0, 1);
  std::vector<Shape> bound = shapes_of(node.operands());
  const std::vector<Shape> all = shapes_of(callee.parameters());
  const bool some = bound.size() < all.size();
  check_parameters(node, callee, some ? all : bound);
  for (size_t i = 0; i < bound.size(); ++i)
    if (!(bound[i] == all[i]))
      user_error("async-start: operand {} is {}, parameter {} of {} is {}", i, to_string(bound[i]),
                 i, callee.name(), to_string(all[i]));
  check_leaf_sizes(node);
  const bool typed = some && node.shape.is_tuple && !node.shape.elements.empty() &&
                     node.shape.elements[0] == Shape::tuple(all);
  check_element(node, 0, Shape::tuple(typed ? all : std::move(bound)));
  check_element(node, 1, callee.root()->shape);
  return node.shape;
}

Shape infer_async_update(const Node& node) {
  check_operand_count(node, 1, -1);
  Shape result = node.operand(0)->shape;
  if (!result.is_tuple || result.elements.size() < 2)
    user_error("async-update: the operand is {}; it has to be what the op that starts it gives",
               to_string(result));
  if (node.operands().size() == 1 || node.shape == result) return result;
  std::vector<Shape> bound = result.elements[0].elements;
  for (size_t i = 1; i < node.operands().size(); ++i) bound.push_back(node.operands()[i]->shape);
  result.elements[0] = Shape::tuple(std::move(bound));
  return result;
}

Shape infer_async_done(const Node& node) { return operand_element(node, 1); }

// How many operands are bound at a start, or an update behind it; the start.
std::pair<const Node*, size_t> bound_at(const Node& node) {
  size_t bound = 0;
  const Node* at = &node;
  for (; at->is(Opcode::async_update); at = at->operand(0)) bound += at->operands().size() - 1;
  if (!at->is(Opcode::async_start))
    user_error("{}: \"{}\" does not come from async-start directly", opcode_name(node.opcode()),
               node.name());
  return {at, bound + at->operands().size()};
}

bool binds_later(const Node& start) {
  return start.operands().size() < start.called.at(0)->parameters().size();
}

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
  Value value = zero_value(context.node.shape);
  value.elements[0] = value.elements[1] = context.operands[0];
  return value;
}

Value evaluate_async_start(const EvalContext& context) {
  if (binds_later(context.node)) {
    Value value = zero_value(context.node.shape);
    std::copy(context.operands.begin(), context.operands.end(), value.elements[0].elements.begin());
    return value;
  }
  return started_value(context.node.shape, {context.operands.begin(), context.operands.end()},
                       context.call(*context.node.called[0], context.operands));
}

Value evaluate_async_update(const EvalContext& context) {
  if (context.operands.size() == 1) return context.operands[0];
  Value value = context.operands[0];
  std::vector<Value>& elements = value.elements[0].elements;
  elements.resize(context.node.shape.elements[0].elements.size());
  const size_t before = bound_at(context.node).second - (context.operands.size() - 1);
  if (before + context.operands.size() - 1 > elements.size())
    user_error("async-update: \"{}\" binds operand {} of {}", context.node.name(),
               before + context.operands.size() - 2, elements.size());
  std::copy(context.operands.begin() + 1, context.operands.end(),
            elements.begin() + static_cast<std::ptrdiff_t>(before));
  return value;
}

// The computation runs at the start, or here where updates bound some of its operands.
Value evaluate_async_done(const EvalContext& context) {
  const Node* source = context.node.operand(0);
  const Node* start = source;
  while (start->is(Opcode::async_update)) start = start->operand(0);
  if (!start->is(Opcode::async_start) || !binds_later(*start))
    return context.operands[0].elements[1];
  const size_t needed = start->called[0]->parameters().size();
  if (const size_t bound = bound_at(*source).second; bound != needed)
    user_error("async-done: \"{}\" ends a call of \"{}\" with {} of its {} operands bound",
               context.node.name(), start->called[0]->name(), bound, needed);
  return context.call(*start->called[0], context.operands[0].elements[0].elements);
}

Value evaluate_element_0(const EvalContext& context) { return context.operands[0].elements[0]; }

Suggestions outfeed_suggestions(const Node& node, int64_t operand, CompletionMode) {
  if (operand != 0 || !node.sharding) return {};
  if (!node.sharding->is_tuple()) return only(node.sharding);
  const Shape& value = node.operand(0)->shape;
  const std::vector<Sharding>& leaves = node.sharding->elements();
  if (!value.is_tuple) return only(leaves.at(0));
  const int64_t count = leaf_count(value);
  if (count > static_cast<int64_t>(leaves.size())) return {};
  return only(Sharding::tuple({leaves.begin(), leaves.begin() + count}));
}

constexpr OpInfo row(Opcode opcode, OperandCount operands, decltype(OpInfo::infer) infer,
                     decltype(OpInfo::factors) factors, decltype(OpInfo::evaluate) evaluate,
                     decltype(OpInfo::leaf_gradient) gradient = nullptr) {
  return {.opcode = opcode,
          .traits = kIntegerPreserving,
          .operands = operands,
          .infer = infer,
          .factors = factors,
          .evaluate = evaluate,
          .leaf_gradient = gradient,
          .completion = kPointwiseCompletion};
}

// Without a host program beside the module there is nothing to run.
constexpr OpInfo transfer(Opcode opcode, OperandCount operands,
                          CompletionRules completion = kPointwiseCompletion) {
  return {.opcode = opcode,
          .traits = kSideEffect | kIntegerPreserving,
          .operands = operands,
          .infer = infer_transfer,
          .factors = whole_factors,
          .completion = completion};
}

const OpInfo kAsyncRows[] = {
    row(Opcode::after_all, {0, -1}, infer_after_all, whole_factors, evaluate_after_all),
    row(Opcode::add_dependency, {2, 2}, infer_add_dependency, pointwise_factors, evaluate_operand,
        first_operand_gradient),
    row(Opcode::copy_start, {1, 1}, infer_copy_start, whole_factors, evaluate_copy_start,
        copy_start_gradient),
    row(Opcode::copy_done, {1, 1}, infer_copy_done, whole_factors, evaluate_element_0,
        first_operand_gradient),
    row(Opcode::async_start, {0, -1}, infer_async_start, whole_factors, evaluate_async_start),
    row(Opcode::async_update, {1, -1}, infer_async_update, whole_factors, evaluate_async_update),
    row(Opcode::async_done, {1, 1}, infer_async_done, whole_factors, evaluate_async_done),
    row(Opcode::domain, {1, 1}, infer_domain, pointwise_factors, evaluate_operand,
        identity_gradient),
    transfer(Opcode::infeed, {0, 1}, kNoCompletion),
    transfer(Opcode::outfeed, {1, 2},
             {.suggestions = outfeed_suggestions, .may_be_tiled = never_tiled}),
    transfer(Opcode::send, {1, 2}),
    transfer(Opcode::send_done, {1, 1}),
    transfer(Opcode::recv, {0, 1}),
    transfer(Opcode::recv_done, {1, 1}),
};

}  // namespace

const Shape& operand_element(const Node& node, size_t i) {
  check_operand_count(node, 1);
  const Shape& shape = node.operand(0)->shape;
  if (!shape.is_tuple || shape.elements.size() <= i)
    user_error("{}: the operand is {}; it has to be what the op that starts it gives",
               opcode_name(node.opcode()), to_string(shape));
  return shape.elements[i];
}

Value started_value(const Shape& shape, std::vector<Value> operands, Value result) {
  Value value = zero_value(shape);
  value.elements[0] = Value::tuple(std::move(operands));
  value.elements[1] = std::move(result);
  return value;
}

std::span<const OpInfo> async_rows() { return kAsyncRows; }

}  // namespace gspmd
