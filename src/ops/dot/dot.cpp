#include "ops/dot/dot.h"

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/widen.h"
#include "ops/dot/form.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

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
  for (const DotLoop& loop : dot_loops(node))
    if (loop.out >= 0) result.dims.push_back(size_of(node, loop));
  return checked_size(node, std::move(result));
}

FactorRule dot_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (const DotLoop& loop : dot_loops(node)) {
    add_loop(rule, node, loop, loop.out < 0 ? FactorKind::reduction : FactorKind::pass);
    if (loop.out < 0 && node.shape.dtype == DType::pred)
      rule.factors.back().combiner = Combiner::logical_or;
  }
  return rule;
}

int64_t dot_flops(const Node& node) {
  int64_t flops = saturating_multiply(2, node.shape.elements_count());
  for (const int64_t d : node.attrs.dot->lhs_contracting)
    flops = saturating_multiply(flops, node.operand(0)->dim(d));
  return flops;
}

const OpInfo kDotRows[] = {
    {.opcode = Opcode::dot,
     .traits = kLinearInEach | kIntegerPreserving | kFixedLayout | kTakesViews,
     .operands = {2, 2},
     .infer = infer_dot,
     .factors = dot_factors,
     .evaluate = any_width<evaluate_dot>,
     .gradient = dot_gradient,
     .completion = {.speakers = Speakers::all, .operands_confer = true, .weighed = true},
     .lower = lower_dot,
     .flops = dot_flops,
     .batch = batch_dot},
    {.opcode = Opcode::scaled_dot,
     .operands = {4, 4},
     .infer = infer_scaled_dot,
     .factors = scaled_dot_factors,
     .evaluate = evaluate_scaled_dot,
     .differentiable_form = scaled_dot_form,
     .completion = kPointwiseCompletion,
     .batch = batch_in_loop},
};

}  // namespace

Dims free_dims(int64_t rank, const Dims& batch, const Dims& contracting) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(batch, d) && !contains(contracting, d)) dims.push_back(d);
  return dims;
}

std::vector<DotLoop> dot_loops(const Node& node, const Dims& rhs_group, int64_t first_out) {
  const DotDims& dims = *node.attrs.dot;
  std::vector<DotLoop> loops;
  Dims rhs_taken = dims.rhs_contracting;
  rhs_taken.insert(rhs_taken.end(), rhs_group.begin(), rhs_group.end());
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i)
    loops.push_back({dims.lhs_batch[i], dims.rhs_batch[i], first_out++});
  for (const int64_t d : free_dims(node.operand(0)->rank(), dims.lhs_batch, dims.lhs_contracting))
    loops.push_back({d, -1, first_out++});
  for (const int64_t d : free_dims(node.operand(1)->rank(), dims.rhs_batch, rhs_taken))
    loops.push_back({-1, d, first_out++});
  for (size_t i = 0; i < dims.lhs_contracting.size(); ++i)
    loops.push_back({dims.lhs_contracting[i], dims.rhs_contracting[i], -1});
  return loops;
}

int64_t size_of(const Node& node, const DotLoop& loop) {
  return loop.lhs >= 0 ? node.operand(0)->dim(loop.lhs) : node.operand(1)->dim(loop.rhs);
}

void add_loop(FactorRule& rule, const Node& node, const DotLoop& loop, FactorKind kind) {
  const int64_t factor = add_factor(rule, size_of(node, loop), kind);
  if (loop.lhs >= 0) rule.operands[0][static_cast<size_t>(loop.lhs)] = factor;
  if (loop.rhs >= 0) rule.operands[1][static_cast<size_t>(loop.rhs)] = factor;
  if (loop.out >= 0) rule.results[0][static_cast<size_t>(loop.out)] = factor;
}

void check_pairs(const Node& node, const char* kind, const Dims& lhs_dims, const Dims& rhs_dims) {
  const Shape &lhs = node.operand(0)->shape, &rhs = node.operand(1)->shape;
  if (lhs_dims.size() != rhs_dims.size())
    user_error("{}: {} {} dims on the left, {} on the right; they have to pair up",
               opcode_name(node.opcode()), lhs_dims.size(), kind, rhs_dims.size());
  for (size_t i = 0; i < lhs_dims.size(); ++i)
    if (lhs.dims[static_cast<size_t>(lhs_dims[i])] != rhs.dims[static_cast<size_t>(rhs_dims[i])])
      user_error("{}: {} dim {} of {} and dim {} of {} differ in size", opcode_name(node.opcode()),
                 kind, lhs_dims[i], to_string(lhs), rhs_dims[i], to_string(rhs));
}

std::span<const OpInfo> dot_rows() { return kDotRows; }

}  // namespace gspmd
