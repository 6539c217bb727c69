// scaled-dot: a dot of operands that are stored small, each with an array of scales of which one
// element is for a block of the operand's elements. Operands: left, right, scales of both.

#include <algorithm>

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/factors.h"
#include "ops/common/numeric.h"
#include "ops/common/whole_factors.h"
#include "ops/common/widen.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

// Every element of operand i times the scale of its block, in f64.
Array scaled(const EvalContext& context, size_t i) {
  const Array x = widened(context.operands[i].array);
  const Array scales = widened(context.operands[i + 2].array);
  const auto refuse = [&] {
    user_error("scaled-dot: \"{}\": scales {} are no blocks of {}; each dim divides the operand's",
               context.node.name(), to_string(context.operands[i + 2].array.shape()),
               to_string(context.operands[i].array.shape()));
  };
  if (scales.shape().rank() != x.shape().rank()) refuse();
  for (size_t d = 0; d < x.dims().size(); ++d)
    if (scales.dims()[d] == 0 || x.dims()[d] % scales.dims()[d] != 0) refuse();
  Array result(DType::f64, x.dims());
  const std::span<double> out = result.data<double>();
  const Dims strides = row_major_strides(x.dims()), from = row_major_strides(scales.dims());
  for (int64_t k = 0; k < result.size(); ++k) {
    int64_t scale = 0;
    for (size_t d = 0; d < x.dims().size(); ++d)
      scale += k / strides[d] % x.dims()[d] * scales.dims()[d] / x.dims()[d] * from[d];
    out[static_cast<size_t>(k)] = x.at(k) * scales.at(scale);
  }
  return result;
}

bool in_range(const Dims& dims, int64_t rank) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d >= 0 && d < rank; });
}

// Whether the shapes are those of a dot whose operands have scales; text may declare others.
bool is_dot_of_blocks(const Node& node) {
  const DotDims& dims = node.attrs.dot;
  const Shape &lhs = node.operand(0)->shape, &rhs = node.operand(1)->shape;
  if (!in_range(dims.lhs_batch, lhs.rank()) || !in_range(dims.lhs_contracting, lhs.rank()) ||
      !in_range(dims.rhs_batch, rhs.rank()) || !in_range(dims.rhs_contracting, rhs.rank()) ||
      node.operand(2)->rank() != lhs.rank() || node.operand(3)->rank() != rhs.rank())
    return false;
  const auto sizes = [](const Shape& shape, const Dims& list) {
    Dims result;
    for (const int64_t d : list) result.push_back(shape.dims[static_cast<size_t>(d)]);
    return result;
  };
  Dims result = sizes(lhs, dims.lhs_batch);
  if (result != sizes(rhs, dims.rhs_batch)) return false;
  for (const int64_t size : sizes(lhs, free_dims(lhs.rank(), dims.lhs_batch, dims.lhs_contracting)))
    result.push_back(size);
  for (const int64_t size : sizes(rhs, free_dims(rhs.rank(), dims.rhs_batch, dims.rhs_contracting)))
    result.push_back(size);
  return result == node.dims();
}

}  // namespace

// The loops of the result, where a scale is for one element; blocks and sums are whole.
FactorRule scaled_dot_factors(const Node& node) {
  if (!is_dot_of_blocks(node)) return whole_factors(node);
  const DotDims& dims = node.attrs.dot;
  FactorRule rule = no_factors(node);
  const auto set = [&](int64_t side, int64_t d, int64_t factor) {
    rule.operands[static_cast<size_t>(side)][static_cast<size_t>(d)] = factor;
    if (node.operand(side)->dim(d) == node.operand(side + 2)->dim(d)) {
      rule.operands[static_cast<size_t>(side) + 2][static_cast<size_t>(d)] = factor;
    } else {
      rule.factors[static_cast<size_t>(factor)].kind = FactorKind::blocked;
      block_operand(rule, node, side + 2, d);
    }
  };
  int64_t out = 0;
  const auto result_factor = [&] {
    const int64_t factor = add_factor(rule, node.dim(out));
    return rule.results[0][static_cast<size_t>(out++)] = factor;
  };
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i) {
    const int64_t factor = result_factor();
    set(0, dims.lhs_batch[i], factor);
    set(1, dims.rhs_batch[i], factor);
  }
  for (const int64_t d : free_dims(node.operand(0)->rank(), dims.lhs_batch, dims.lhs_contracting))
    set(0, d, result_factor());
  for (const int64_t d : free_dims(node.operand(1)->rank(), dims.rhs_batch, dims.rhs_contracting))
    set(1, d, result_factor());
  for (const int64_t i : {0, 2})
    for (const int64_t d : dims.lhs_contracting) block_operand(rule, node, i, d);
  for (const int64_t i : {1, 3})
    for (const int64_t d : dims.rhs_contracting) block_operand(rule, node, i, d);
  return rule;
}

Shape infer_scaled_dot(const Node& node) {
  check_operand_count(node, 4);
  for (int64_t i = 0; i < 4; ++i) array_operand(node, i);
  return checked_size(node, declared_array(node));
}

Value evaluate_scaled_dot(const EvalContext& context) {
  if (context.node.shape.elements_count() == 0) return {Array(context.node.shape), {}, false};
  Module scratch("scaled-dot");
  Computation* const body = scratch.add_computation("scaled-dot");
  std::vector<Node*> parameters;
  std::vector<Value> operands;
  for (size_t i = 0; i < 2; ++i) {
    operands.push_back({scaled(context, i), {}, false});
    Attributes attrs;
    attrs.index = static_cast<int64_t>(i);
    const Shape& shape = operands.back().array.shape();
    parameters.push_back(body->append(Opcode::parameter, shape, {}, std::move(attrs)));
  }
  const Node* const dot =
      body->append(Opcode::dot, context.node.shape, parameters, context.node.attrs);
  if (const Shape implied = dot->op().infer(*dot); !(implied == context.node.shape))
    user_error("scaled-dot: \"{}\" is declared as {}, its operands give {}", context.node.name(),
               to_string(context.node.shape), to_string(implied));
  return dot->op().evaluate({*dot, operands, context.call});
}

}  // namespace gspmd
