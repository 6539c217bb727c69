#include "gspmd/base/error.h"
#include "ops/check.h"
#include "ops/factors.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

void check_leaf_sizes(const Node& node, const Shape& shape) {
  for (const Shape& leaf : leaf_shapes(shape)) checked_size(node, leaf);
}

Shape infer_parameter(const Node& node) {
  check_operand_count(node, 0);
  if (node.attrs.index < 0)
    user_error("parameter: number {} is negative; parameters count from 0", node.attrs.index);
  check_leaf_sizes(node, node.shape);
  return node.shape;
}

Shape infer_constant(const Node& node) {
  check_operand_count(node, 0);
  if (node.attrs.literal.empty())
    user_error("constant: {} has no literal; write its value", to_string(node.shape));
  return node.attrs.literal.shape();
}

Shape infer_partition_id(const Node& node) {
  check_operand_count(node, 0);
  return Shape(DType::u32, {});
}

// Its dims are the result's alone: completion goes backward only, any part can be made in place.
FactorRule result_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  if (!node.shape.is_tuple)
    for (size_t d = 0; d < node.dims().size(); ++d)
      rule.results[0][d] = add_factor(rule, node.dims()[d]);
  return rule;
}

// The interpreter binds parameters before it asks an op to evaluate.
Value evaluate_parameter(const EvalContext& context) {
  internal_error("parameter: \"{}\" has no argument", context.node.name());
}

Value evaluate_constant(const EvalContext& context) {
  return {context.node.attrs.literal, {}, false};
}

Value evaluate_partition_id(const EvalContext&) {
  user_error("partition-id: it has no meaning on one device; run the module on several devices");
}

// One replica is simulated.
Value evaluate_replica_id(const EvalContext&) { return {Array::scalar(uint32_t(0)), {}, false}; }

// No operands, so there is nothing that a cotangent could flow to.
std::vector<Node*> no_gradient(Node&, Node*) { return {}; }

std::vector<OpInfo> build_rows() {
  std::vector<OpInfo> rows(4);
  rows[0].opcode = Opcode::parameter;
  rows[0].traits = kIntegerPreserving;
  rows[0].infer = infer_parameter;
  rows[0].evaluate = evaluate_parameter;
  rows[0].gradient = no_gradient;
  rows[1].opcode = Opcode::constant;
  rows[1].traits = kConstantLike | kIntegerPreserving;
  rows[1].infer = infer_constant;
  rows[1].factors = result_factors;
  rows[1].evaluate = evaluate_constant;
  rows[1].gradient = no_gradient;
  rows[2].opcode = Opcode::partition_id;
  rows[2].traits = kConstantLike | kIntegerPreserving;
  rows[2].infer = infer_partition_id;
  rows[2].evaluate = evaluate_partition_id;
  rows[2].gradient = no_gradient;
  rows[3].opcode = Opcode::replica_id;
  rows[3].traits = kConstantLike | kIntegerPreserving;
  rows[3].infer = infer_partition_id;
  rows[3].evaluate = evaluate_replica_id;
  rows[3].gradient = no_gradient;
  return rows;
}

}  // namespace

std::span<const OpInfo> source_rows() {
  static const std::vector<OpInfo> rows = build_rows();
  return rows;
}

}  // namespace gspmd
