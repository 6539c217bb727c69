#include "ops/batch_norm/batch_norm.h"

#include <cmath>

#include "gspmd/base/error.h"
#include "ops/batch_norm/form.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/numeric.h"
#include "ops/common/widen.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

// Operand 0 and those in `like` have its shape; all others have one element per feature.
void check_operands(const Node& node, int64_t count, int64_t like = 0) {
  check_operand_count(node, count);
  const Shape& x = array_operand(node, 0);
  if (!is_floating(x.dtype))
    user_error("{}: the operand is {}; it takes floating point numbers", opcode_name(node.opcode()),
               to_string(x));
  const int64_t feature = node.attrs.index;
  if (feature < 0 || feature >= x.rank())
    user_error("{}: feature_index={} is outside the {} dims of {}", opcode_name(node.opcode()),
               feature, x.rank(), to_string(x));
  for (int64_t i = 1; i < count; ++i) {
    const Shape& shape = array_operand(node, i);
    const Dims wanted = i == like ? x.dims : Dims{x.dims[static_cast<size_t>(feature)]};
    if (shape.dims != wanted || shape.dtype != x.dtype)
      user_error("{}: operand {} is {}, it has to be {}", opcode_name(node.opcode()), i,
                 to_string(shape), to_string(Shape(x.dtype, wanted)));
  }
}

Shape feature_shape(const Node& node) {
  const Shape& x = node.operand(0)->shape;
  return Shape(x.dtype, {x.dims[static_cast<size_t>(node.attrs.index)]});
}

Shape whole_shape(const Node& node) {
  return Shape(node.operand(0)->shape.dtype, node.operand(0)->shape.dims);
}

Shape infer_training(const Node& node) {
  check_operands(node, 3);
  return Shape::tuple({whole_shape(node), feature_shape(node), feature_shape(node)});
}

Shape infer_inference(const Node& node) {
  check_operands(node, 5);
  return whole_shape(node);
}

Shape infer_grad(const Node& node) {
  check_operands(node, 5, 4);
  return Shape::tuple({whole_shape(node), feature_shape(node), feature_shape(node)});
}

using Doubles = std::vector<double>;

Doubles doubles(const Array& array) {
  const Array wide = converted(array, Array(DType::f64, array.dims()));
  return {wide.data<double>().begin(), wide.data<double>().end()};
}

Value rounded(const Doubles& values, const Shape& shape) {
  return {converted(Array::of<double>(shape.dims, values), Array(shape)), {}, false};
}

// Which elements belong to which feature, and how many a feature has.
struct Features {
  explicit Features(const Node& node) {
    const Dims& dims = node.operand(0)->dims();
    const auto feature = static_cast<size_t>(node.attrs.index);
    for (size_t d = 0; d < dims.size(); ++d)
      (d < feature ? outer : d > feature ? inner : count) *= dims[d];
    each = static_cast<double>(outer * inner);
  }
  // Calls f(element, feature) for all elements in order.
  template <class F>
  void for_each(F&& f) const {
    size_t i = 0;
    for (int64_t o = 0; o < outer; ++o)
      for (size_t feature = 0; feature < static_cast<size_t>(count); ++feature)
        for (int64_t k = 0; k < inner; ++k) f(i++, feature);
  }
  // The mean over each feature of f(element, feature).
  template <class F>
  Doubles mean(F&& f) const {
    Doubles sums(static_cast<size_t>(count), 0.0);
    for_each([&](size_t i, size_t feature) { sums[feature] += f(i, feature); });
    for (double& sum : sums) sum /= each;
    return sums;
  }
  int64_t outer = 1, inner = 1, count = 1;
  double each = 0;
};

// (x - mean) * scale / sqrt(variance + epsilon) + offset.
Doubles normalized(const Features& features, const Doubles& x, const Doubles& scale,
                   const Doubles& offset, const Doubles& mean, const Doubles& variance,
                   double epsilon) {
  Doubles factor(scale.size());
  for (size_t f = 0; f < factor.size(); ++f)
    factor[f] = scale[f] / std::sqrt(variance[f] + epsilon);
  Doubles out(x.size());
  features.for_each([&](size_t i, size_t f) { out[i] = (x[i] - mean[f]) * factor[f] + offset[f]; });
  return out;
}

Value evaluate_training(const EvalContext& context) {
  const Features features(context.node);
  const Doubles x = doubles(context.operands[0].array);
  const Doubles mean = features.mean([&](size_t i, size_t) { return x[i]; });
  const Doubles variance =
      features.mean([&](size_t i, size_t f) { return (x[i] - mean[f]) * (x[i] - mean[f]); });
  const Doubles out = normalized(features, x, doubles(context.operands[1].array),
                                 doubles(context.operands[2].array), mean, variance,
                                 context.node.attrs.scalar->epsilon);
  const std::vector<Shape>& shapes = context.node.shape.elements;
  return Value::tuple(
      {rounded(out, shapes[0]), rounded(mean, shapes[1]), rounded(variance, shapes[2])});
}

Value evaluate_inference(const EvalContext& context) {
  const auto operand = [&](size_t i) { return doubles(context.operands[i].array); };
  return rounded(normalized(Features(context.node), operand(0), operand(1), operand(2), operand(3),
                            operand(4), context.node.attrs.scalar->epsilon),
                 context.node.shape);
}

// Operands: input, scale, mean, variance, cotangent of the output.
Value evaluate_grad(const EvalContext& context) {
  const auto operand = [&](size_t i) { return doubles(context.operands[i].array); };
  const Features features(context.node);
  const Doubles x = operand(0), scale = operand(1), mean = operand(2), variance = operand(3);
  const Doubles cotangent = operand(4);
  const double epsilon = context.node.attrs.scalar->epsilon;
  const Doubles mean_cotangent = features.mean([&](size_t i, size_t) { return cotangent[i]; });
  const Doubles mean_product =
      features.mean([&](size_t i, size_t f) { return cotangent[i] * (x[i] - mean[f]); });
  Doubles grad(x.size());
  features.for_each([&](size_t i, size_t f) {
    const double spread = variance[f] + epsilon;
    grad[i] = scale[f] / std::sqrt(spread) *
              (cotangent[i] - mean_cotangent[f] - (x[i] - mean[f]) * mean_product[f] / spread);
  });
  Doubles grad_scale(scale.size()), grad_offset(scale.size());
  for (size_t f = 0; f < scale.size(); ++f) {
    grad_scale[f] = mean_product[f] * features.each / std::sqrt(variance[f] + epsilon);
    grad_offset[f] = mean_cotangent[f] * features.each;
  }
  const std::vector<Shape>& shapes = context.node.shape.elements;
  return Value::tuple(
      {rounded(grad, shapes[0]), rounded(grad_scale, shapes[1]), rounded(grad_offset, shapes[2])});
}

// The feature dim passes; where sums run over the others, these have to be whole.
FactorRule batch_norm_factors(const Node& node) {
  FactorRule rule = node.is(Opcode::batch_norm_inference) ? no_factors(node) : whole_factors(node);
  const bool sums = !node.is(Opcode::batch_norm_inference);
  const Dims& dims = node.operand(0)->dims();
  const auto feature = static_cast<size_t>(node.attrs.index);
  const int64_t features = add_factor(rule, dims[feature]);
  for (size_t d = 0; d < dims.size() && !sums; ++d)
    rule.operands[0][d] = rule.results[0][d] = d == feature ? features : add_factor(rule, dims[d]);
  for (std::vector<std::vector<int64_t>>* side : {&rule.operands, &rule.results})
    for (std::vector<int64_t>& array : *side)
      array[array.size() == dims.size() ? feature : 0] =
          features;  // in rank 1 the feature is dim 0
  return rule;
}

const OpInfo kBatchNormRows[] = {
    {.opcode = Opcode::batch_norm_training,
     .operands = {3, 3},
     .infer = infer_training,
     .factors = batch_norm_factors,
     .evaluate = any_width<evaluate_training>,
     .expand = expand_batch_norm,
     .completion = kPointwiseCompletion,
     .batch = batch_batch_norm},
    {.opcode = Opcode::batch_norm_inference,
     .operands = {5, 5},
     .infer = infer_inference,
     .factors = batch_norm_factors,
     .evaluate = any_width<evaluate_inference>,
     .differentiable_form = batch_norm_inference_form,
     .completion = kPointwiseCompletion,
     .batch = batch_batch_norm},
    {.opcode = Opcode::batch_norm_grad,
     .operands = {5, 5},
     .infer = infer_grad,
     .factors = batch_norm_factors,
     .evaluate = any_width<evaluate_grad>,
     .expand = expand_batch_norm,
     .completion = kPointwiseCompletion,
     .batch = batch_batch_norm},
};

}  // namespace

std::span<const OpInfo> batch_norm_rows() { return kBatchNormRows; }

}  // namespace gspmd
