#include "gspmd/base/error.h"
#include "gspmd/ir/known_literal.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/collective/collective.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/rows.h"
#include "ops/shape/shape.h"

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
  // Of elements that the text left out nothing but the declared shape is known.
  return node.attrs.literal.empty() ? node.shape : node.attrs.literal.shape();
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
  return {known_literal(context.node), {}, false};
}

Value evaluate_partition_id(const EvalContext&) {
  user_error("partition-id: it has no meaning on one device; run the module on several devices");
}

// One replica is simulated.
Value evaluate_replica_id(const EvalContext&) { return {Array::scalar(uint32_t(0)), {}, false}; }

// No operands, so there is nothing that a cotangent could flow to.
std::vector<Node*> no_gradient(Node&, Node*) { return {}; }

std::optional<Partitioned> partition_replica_id(PartitionContext& context, Node&) {
  return Partitioned{hlo::constant(context.local(), Array::scalar(uint32_t{0})),
                     Sharding::replicated()};
}

const OpInfo kSourceRows[] = {
    {.opcode = Opcode::parameter,
     .traits = kIntegerPreserving | kPlacedAnywhere,
     .infer = infer_parameter,
     .evaluate = evaluate_parameter,
     .gradient = no_gradient,
     .completion = kNoCompletion},
    {.opcode = Opcode::constant,
     .traits = kConstantLike | kIntegerPreserving | kPlacedAnywhere,
     .infer = infer_constant,
     .factors = result_factors,
     .evaluate = evaluate_constant,
     .gradient = no_gradient,
     .completion = {.level = 0},
     .partition = partition_constant},
    {.opcode = Opcode::partition_id,
     .traits = kConstantLike | kIntegerPreserving,
     .infer = infer_partition_id,
     .evaluate = evaluate_partition_id,
     .gradient = no_gradient,
     .completion = kPointwiseCompletion,
     .partition = refuse_per_device},
    {.opcode = Opcode::replica_id,
     .traits = kConstantLike | kIntegerPreserving,
     .infer = infer_partition_id,
     .evaluate = evaluate_replica_id,
     .gradient = no_gradient,
     .completion = kPointwiseCompletion,
     .partition = partition_replica_id},
};

}  // namespace

std::span<const OpInfo> source_rows() { return kSourceRows; }

}  // namespace gspmd
