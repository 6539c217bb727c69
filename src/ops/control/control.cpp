#include "ops/control/control.h"

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/loop_lowering.h"
#include "ops/control/batch.h"
#include "ops/control/row_tiles.h"
#include "ops/dot/dot.h"
#include "ops/dot/row_blocks.h"
#include "ops/rows.h"
#include "ops/shape/interleave.h"

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
  return node.shape.is_tuple ? no_factors(node) : pointwise_factors(node);
}

// Results follow their computations, which completion ties to them.
constexpr CompletionRules kWholeRules{
    .forward = same_forward, .suggestions = same_suggestions, .level = 0};

PreparedKernel lower_fusion(const Node& node) {
  if (node.attrs.fusion_kind == "kOutput") return lower_dot_fusion(node);
  if (node.attrs.fusion_kind == "kCustom") {
    for (const auto lower : {lower_interleave, lower_row_blocks, lower_row_tiles})
      if (PreparedKernel kernel = lower(node); kernel.run) return kernel;
    return {};
  }
  return lower_loop_fusion(node);
}

const OpInfo kControlRows[] = {
    {.opcode = Opcode::tuple,
     .traits = kIntegerPreserving | kPlacedAnywhere,
     .operands = {0, -1},
     .infer = infer_tuple,
     .evaluate = evaluate_tuple,
     .leaf_gradient = tuple_gradient,
     .completion = {.forward = tuple_forward, .suggestions = tuple_suggestions, .level = 0},
     .partition = partition_tuple},
    {.opcode = Opcode::get_tuple_element,
     .traits = kIntegerPreserving | kPlacedAnywhere,
     .operands = {1, 1},
     .infer = infer_get_tuple_element,
     .evaluate = evaluate_get_tuple_element,
     .leaf_gradient = get_tuple_element_gradient,
     .completion = {.forward = element_forward, .suggestions = element_suggestions, .level = 0},
     .partition = partition_get_tuple_element},
    {.opcode = Opcode::while_,
     .traits = kIntegerPreserving | kFixedLayout | kPlacedAnywhere,
     .operands = {1, 1},
     .infer = infer_while,
     .evaluate = evaluate_while,
     .completion = kWholeRules,
     .partition = partition_while,
     .batch = batch_while},
    {.opcode = Opcode::conditional,
     .traits = kIntegerPreserving | kPlacedAnywhere,
     .operands = {2, -1},
     .infer = infer_conditional,
     .evaluate = evaluate_conditional,
     .completion = {.suggestions = same_dims_suggestions},
     .partition = partition_conditional,
     .batch = batch_conditional},
    {.opcode = Opcode::call,
     .traits = kIntegerPreserving,
     .operands = {0, -1},
     .infer = infer_call,
     .evaluate = evaluate_call,
     .completion = {.suggestions = same_dims_suggestions, .level = 0},
     .batch = batch_call},
    // A fusion is read as it was partitioned.
    {.opcode = Opcode::fusion,
     .traits = kIntegerPreserving,
     .operands = {0, -1},
     .infer = infer_call,
     .evaluate = evaluate_call,
     .completion = {.may_be_tiled = never_tiled},
     .lower = lower_fusion,
     .batch = batch_call},
    {.opcode = Opcode::optimization_barrier,
     .traits = kIntegerPreserving | kLinear | kFirstLeads | kPlacedAnywhere | kAlias,
     .operands = {1, 1},
     .infer = infer_optimization_barrier,
     .factors = barrier_factors,
     .evaluate = evaluate_operand,
     .leaf_gradient = identity_gradient,
     .completion = kWholeRules,
     .partition = partition_opt_barrier,
     .batch = batch_opt_barrier},
    {.opcode = Opcode::custom_call,
     .traits = kIntegerPreserving | kMadeAsOne,
     .operands = {0, -1},
     .infer = infer_custom_call,
     .factors = custom_call_factors,
     .evaluate = evaluate_custom_call,
     .leaf_gradient = custom_call_gradient,
     .completion = {custom_call_forward, custom_call_suggestions, custom_call_may_be_tiled},
     .partition = partition_custom_call,
     .batch = batch_custom_call},
};

}  // namespace

std::span<const OpInfo> control_rows() { return kControlRows; }

}  // namespace gspmd
