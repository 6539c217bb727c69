// scaled-dot: a dot of operands that are stored small, each with an array of scales of which one
// element is for a block of the operand's elements. Operands: left, right, scales of both.

#include <algorithm>

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/factors.h"
#include "ops/common/numeric.h"
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
  if (dims.lhs_batch.size() != dims.rhs_batch.size() ||
      dims.lhs_contracting.size() != dims.rhs_contracting.size())
    return false;
  Dims result;
  for (const DotLoop& loop : dot_loops(node)) {
    if (loop.out < 0) continue;
    result.push_back(size_of(node, loop));
    if (loop.rhs >= 0 && node.operand(1)->dim(loop.rhs) != result.back()) return false;
  }
  return result == node.dims();
}

}  // namespace

// The loops of the result, where a scale is for one element; blocks and sums are whole.
FactorRule scaled_dot_factors(const Node& node) {
  if (!is_dot_of_blocks(node)) return whole_factors(node);
  const DotDims& dims = node.attrs.dot;
  FactorRule rule = no_factors(node);
  const auto share = [&](int64_t side, int64_t d) {
    const int64_t factor = rule.operands[static_cast<size_t>(side)][static_cast<size_t>(d)];
    if (node.operand(side)->dim(d) == node.operand(side + 2)->dim(d)) {
      rule.operands[static_cast<size_t>(side) + 2][static_cast<size_t>(d)] = factor;
    } else {
      rule.factors[static_cast<size_t>(factor)].kind = FactorKind::blocked;
      block_operand(rule, node, side + 2, d);
    }
  };
  for (const DotLoop& loop : dot_loops(node)) {
    if (loop.out < 0) continue;
    add_loop(rule, node, loop, FactorKind::pass);
    if (loop.lhs >= 0) share(0, loop.lhs);
    if (loop.rhs >= 0) share(1, loop.rhs);
  }
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
