#include "ops/sort/sort.h"

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/rows.h"
#include "ops/sort/gradient.h"

namespace gspmd {
namespace {

Shape infer_sort(const Node& node) {
  check_operand_count(node, 1, -1);
  const Shape& first = array_operand(node, 0);
  const Dims& dims = node.attrs.dimensions;
  if (dims.size() != 1 || dims[0] < 0 || dims[0] >= first.rank())
    user_error("sort: dimensions={} of operands {}; it sorts along exactly one of their dims",
               braces(dims), to_string(first));
  std::vector<Shape> results, parameters;
  for (int64_t i = 0; i < static_cast<int64_t>(node.operands().size()); ++i) {
    check_same_dims(node, 0, i);
    const DType dtype = node.operand(i)->shape.dtype;
    results.emplace_back(dtype, first.dims);
    for (int side = 0; side < 2; ++side) parameters.emplace_back(dtype, Dims{});
  }
  const Computation& comparator = called_computation(node, 0, 1);
  check_parameters(node, comparator, parameters);
  if (!(comparator.root()->shape == Shape(DType::pred, {})))
    user_error("sort: comparator {} returns {}, it has to return pred[]", comparator.name(),
               to_string(comparator.root()->shape));
  return tuple_unless_one(std::move(results));
}

FactorRule sort_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    const int64_t factor =
        add_factor(rule, node.operand(0)->dim(d),
                   d == node.attrs.dimensions[0] ? FactorKind::blocked : FactorKind::pass);
    for (auto* sides : {&rule.operands, &rule.results})
      for (std::vector<int64_t>& dims : *sides) dims[static_cast<size_t>(d)] = factor;
  }
  return rule;
}

int64_t compare_count(const Shape& shape, int64_t along) {
  int64_t levels = 1;
  while (levels < 62 && (int64_t(1) << levels) < along) ++levels;
  return saturating_multiply(shape.elements_count(), levels);
}

int64_t sort_flops(const Node& node) {
  const Shape& shape = node.operand(0)->shape;
  return compare_count(shape, shape.dims[static_cast<size_t>(node.attrs.dimensions[0])]);
}

Shape infer_topk(const Node& node) {
  check_operand_count(node, 1);
  const Shape& operand = array_operand(node, 0);
  const int64_t k = node.attrs.scalar->k;
  if (operand.rank() == 0) user_error("topk: the operand {} has no dim", to_string(operand));
  if (k < 0 || k > operand.dims.back())
    user_error("topk: k={} of {}; there are {} elements along the last dim", k, to_string(operand),
               operand.dims.back());
  if (is_complex(operand.dtype))
    user_error("topk: elements of {} have no order; use numbers that are not complex",
               dtype_name(operand.dtype));
  Dims dims = operand.dims;
  dims.back() = k;
  return Shape::tuple({Shape(operand.dtype, dims), Shape(DType::s32, dims)});
}

}  // namespace

FactorRule topk_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const int64_t last = node.operand(0)->rank() - 1;
  for (int64_t d = 0; d < last; ++d) {
    const int64_t factor = add_factor(rule, node.operand(0)->dim(d));
    rule.operands[0][static_cast<size_t>(d)] = factor;
    for (std::vector<int64_t>& dims : rule.results) dims[static_cast<size_t>(d)] = factor;
  }
  block_operand(rule, node, 0, last);
  const int64_t out = add_factor(rule, node.shape.elements.at(0).dims.back(), FactorKind::blocked);
  for (std::vector<int64_t>& dims : rule.results) dims[static_cast<size_t>(last)] = out;
  return rule;
}

int64_t topk_flops(const Node& node) {
  const Shape& shape = node.operand(0)->shape;
  return compare_count(shape, shape.dims.back());
}

namespace {

const OpInfo kSortRows[] = {
    {.opcode = Opcode::sort,
     .traits = kMadeAsOne,
     .operands = {1, -1},
     .infer = infer_sort,
     .factors = sort_factors,
     .evaluate = evaluate_sort,
     .leaf_gradient = sort_gradient,
     .completion = {sort_forward, same_number_suggestions},
     .partition = partition_sort,
     .lower = lower_sort,
     .flops = sort_flops},
    {.opcode = Opcode::topk,
     .traits = kPlacedOnAll | kMadeAsOne,
     .operands = {1, 1},
     .infer = infer_topk,
     .factors = topk_factors,
     .evaluate = evaluate_topk,
     .leaf_gradient = topk_gradient,
     .completion = {.speakers = Speakers::first},
     .partition = partition_topk,
     .lower = lower_topk,
     .flops = topk_flops},
};

}  // namespace

std::span<const OpInfo> sort_rows() { return kSortRows; }

}  // namespace gspmd
