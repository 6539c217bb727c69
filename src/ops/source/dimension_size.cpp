#include <limits>

#include "gspmd/base/error.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/loops.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

Shape infer_get(const Node& node) {
  check_operand_count(node, 1);
  named_dim(node, array_operand(node, 0));
  return Shape(DType::s32, {});
}

Shape infer_set(const Node& node) {
  check_operand_count(node, 2);
  named_dim(node, array_operand(node, 0));
  const Shape& size = scalar_operand(node, 1);
  if (size.dtype != DType::s32)
    user_error("set-dimension-size: the size is {}; it has to be s32[]", to_string(size));
  Shape result(node.operand(0)->shape.dtype, node.operand(0)->shape.dims);
  result.dynamic_dims = node.shape.dynamic_dims;
  return result;
}

Value evaluate_get(const EvalContext& context) {
  const int64_t size = context.operands[0].array.dim(context.node.attrs.dimensions[0]);
  if (size > std::numeric_limits<int32_t>::max())
    user_error("get-dimension-size: {} is no s32", size);
  return {Array::scalar(static_cast<int32_t>(size)), {}, false};
}

Value evaluate_set(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const int64_t dim = context.node.attrs.dimensions[0];
  const int64_t size = index_at(context.operands[1].array, 0);
  if (size != x.dim(dim))
    user_error(
        "set-dimension-size: \"{}\" sets dim {} of {} to {}; sizes that change while a "
        "module runs are not supported, only the full size {} is: take a slice, or mask the rest "
        "with "
        "a select",
        context.node.name(), dim, to_string(x.shape()), size, x.dim(dim));
  return context.operands[0];
}

// The sizes are s32 scalars, one a dim of the result, whose declared dims are their bounds.
Shape infer_dynamic_reshape(const Node& node) {
  check_operand_count(node, 1, -1);
  array_operand(node, 0);
  const Shape& declared = declared_array(node);
  if (std::ssize(node.operands()) != declared.rank() + 1)
    user_error("dynamic-reshape: {} sizes for the {} dims of {}; give one each",
               node.operands().size() - 1, declared.rank(), to_string(declared));
  for (int64_t i = 1; i < std::ssize(node.operands()); ++i) scalar_operand(node, i);
  return checked_size(node, declared);
}

Value evaluate_dynamic_reshape(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Shape& shape = context.node.shape;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const int64_t size = index_at(context.operands[static_cast<size_t>(d) + 1].array, 0);
    if (size != shape.dims[static_cast<size_t>(d)] || x.size() != shape.elements_count())
      user_error(
          "dynamic-reshape: \"{}\" of {} gives dim {} of {} the size {}; sizes that change while a "
          "module runs are not supported, only the full ones are",
          context.node.name(), to_string(x.shape()), d, to_string(shape), size);
  }
  return {Array(Shape(shape.dtype, shape.dims), x.clone().storage()), {}, false};
}

// The named dim is whole: its size is compared.
FactorRule set_factors(const Node& node) {
  FactorRule rule = pointwise_factors(node);
  const auto dim = static_cast<size_t>(named_dim(node, array_operand(node, 0)));
  rule.factors[static_cast<size_t>(rule.results[0][dim])].kind = FactorKind::blocked;
  return rule;
}

std::optional<Partitioned> partition_get_dimension_size(PartitionContext& spmd, Node& node) {
  const int64_t size = node.operand(0)->dim(node.attrs.dimensions.at(0));
  if (size > std::numeric_limits<int32_t>::max())
    user_error("get-dimension-size: {} of {} is no s32", size, node.operand(0)->name());
  return Partitioned{hlo::constant(spmd.local(), Array::scalar(static_cast<int32_t>(size))),
                     Sharding::replicated()};
}

// A size is one for all.
std::vector<BatchLeaf> batch_get_dimension_size(BatchContext& context, const Node& node) {
  Attributes attrs = node.attrs;
  attrs.dimensions = behind_batch(attrs.dimensions);
  Node* const x = operand_leaf(context, node, 0).node;
  return {{emit(x->parent(), node.opcode(), {x}, std::move(attrs), node.shape), false}};
}

// Sizes are the full ones: both give their operand's elements in order. Sizes have no derivative.
std::vector<Node*> resized_gradient(Node& node, Node* cotangent) {
  std::vector<Node*> result(node.operands().size(), nullptr);
  const Dims& dims = node.operand(0)->dims();
  result[0] = cotangent->dims() == dims ? cotangent : hlo::reshape(cotangent, dims);
  return result;
}

const OpInfo kDimensionSizeRows[] = {
    {.opcode = Opcode::get_dimension_size,
     .traits = kIntegerPreserving,
     .operands = {1, 1},
     .infer = infer_get,
     .factors = whole_factors,
     .evaluate = evaluate_get,
     .completion = kPointwiseCompletion,
     .partition = partition_get_dimension_size,
     .batch = batch_get_dimension_size},
    {.opcode = Opcode::set_dimension_size,
     .traits = kIntegerPreserving,
     .operands = {2, 2},
     .infer = infer_set,
     .factors = set_factors,
     .evaluate = evaluate_set,
     .gradient = resized_gradient,
     .completion = kPointwiseCompletion,
     .batch = refuse_batch},
    {.opcode = Opcode::dynamic_reshape,
     .traits = kIntegerPreserving,
     .operands = {1, -1},
     .infer = infer_dynamic_reshape,
     .factors = whole_factors,
     .evaluate = evaluate_dynamic_reshape,
     .gradient = resized_gradient,
     .completion = kPointwiseCompletion,
     .batch = refuse_batch},
};

}  // namespace

std::span<const OpInfo> dimension_size_rows() { return kDimensionSizeRows; }

}  // namespace gspmd
