#include "ops/dot/dot.h"

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/strided_view.h"
#include "ops/common/widen.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

// Batch (contracting) dims of the two sides pair up one by one, sizes equal.
void check_pairs(const Node& node, const char* kind, const Dims& lhs_dims, const Dims& rhs_dims) {
  const Shape& lhs = node.operand(0)->shape;
  const Shape& rhs = node.operand(1)->shape;
  if (lhs_dims.size() != rhs_dims.size())
    user_error("dot: {} {} dims on the left, {} on the right; they have to pair up",
               lhs_dims.size(), kind, rhs_dims.size());
  for (size_t i = 0; i < lhs_dims.size(); ++i)
    if (lhs.dims[static_cast<size_t>(lhs_dims[i])] != rhs.dims[static_cast<size_t>(rhs_dims[i])])
      user_error("dot: {} dim {} of {} and dim {} of {} differ in size", kind, lhs_dims[i],
                 to_string(lhs), rhs_dims[i], to_string(rhs));
}

void check_side(const Node& node, const char* side, const Shape& shape, const Dims& batch,
                const Dims& contracting) {
  Dims both = batch;
  both.insert(both.end(), contracting.begin(), contracting.end());
  check_dim_list(node, fmt::format("{} batch and contracting dims ", side), both, shape.rank());
}

Shape infer_dot(const Node& node) {
  check_operand_count(node, 2);
  const Shape& lhs = array_operand(node, 0);
  const Shape& rhs = array_operand(node, 1);
  const DotDims& dims = node.attrs.dot;
  check_side(node, "lhs", lhs, dims.lhs_batch, dims.lhs_contracting);
  check_side(node, "rhs", rhs, dims.rhs_batch, dims.rhs_contracting);
  check_pairs(node, "batch", dims.lhs_batch, dims.rhs_batch);
  check_pairs(node, "contracting", dims.lhs_contracting, dims.rhs_contracting);
  check_product_types(node);
  Shape result(node.shape.dtype, {});
  for (const int64_t d : dims.lhs_batch) result.dims.push_back(lhs.dims[static_cast<size_t>(d)]);
  for (const int64_t d : free_dims(lhs.rank(), dims.lhs_batch, dims.lhs_contracting))
    result.dims.push_back(lhs.dims[static_cast<size_t>(d)]);
  for (const int64_t d : free_dims(rhs.rank(), dims.rhs_batch, dims.rhs_contracting))
    result.dims.push_back(rhs.dims[static_cast<size_t>(d)]);
  return checked_size(node, std::move(result));
}

// Order: batch, lhs free, rhs free (as the result's dims), contracting.
FactorRule dot_factors(const Node& node) {
  const DotDims& dims = node.attrs.dot;
  FactorRule rule = no_factors(node);
  size_t out = 0;
  const auto result_factor = [&] {
    const int64_t factor = add_factor(rule, node.dims()[out]);
    return rule.results[0][out++] = factor;
  };
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i)
    rule.operands[0][static_cast<size_t>(dims.lhs_batch[i])] =
        rule.operands[1][static_cast<size_t>(dims.rhs_batch[i])] = result_factor();
  for (const int64_t d : free_dims(node.operand(0)->rank(), dims.lhs_batch, dims.lhs_contracting))
    rule.operands[0][static_cast<size_t>(d)] = result_factor();
  for (const int64_t d : free_dims(node.operand(1)->rank(), dims.rhs_batch, dims.rhs_contracting))
    rule.operands[1][static_cast<size_t>(d)] = result_factor();
  const Combiner combiner = node.shape.dtype == DType::pred ? Combiner::logical_or : Combiner::sum;
  for (size_t i = 0; i < dims.lhs_contracting.size(); ++i)
    rule.operands[0][static_cast<size_t>(dims.lhs_contracting[i])] =
        rule.operands[1][static_cast<size_t>(dims.rhs_contracting[i])] = add_factor(
            rule, node.operand(0)->dim(dims.lhs_contracting[i]), FactorKind::reduction, combiner);
  return rule;
}

int64_t dot_flops(const Node& node) {
  int64_t flops = saturating_multiply(2, node.shape.elements_count());
  for (const int64_t d : node.attrs.dot->lhs_contracting)
    flops = saturating_multiply(flops, node.operand(0)->dim(d));
  return flops;
}

const OpInfo kRows[] = {
    {.opcode = Opcode::dot,
     .traits = kLinearInEach | kIntegerPreserving | kFixedLayout,
     .operands = {2, 2},
     .infer = infer_dot,
     .factors = dot_factors,
     .evaluate = any_width<evaluate_dot>,
     .gradient = dot_gradient,
     .completion = {.speakers = Speakers::all, .operands_confer = true, .weighed = true},
     .lower = lower_dot,
     .flops = dot_flops},
    {.opcode = Opcode::scaled_dot,
     .operands = {4, 4},
     .infer = infer_scaled_dot,
     .factors = scaled_dot_factors,
     .evaluate = evaluate_scaled_dot,
     .completion = kPointwiseCompletion},
};

}  // namespace

Dims free_dims(int64_t rank, const Dims& batch, const Dims& contracting) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(batch, d) && !contains(contracting, d)) dims.push_back(d);
  return dims;
}

std::span<const OpInfo> dot_rows() { return kRows; }

}  // namespace gspmd
