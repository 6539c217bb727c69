#include "gspmd/api/nn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "api/emit.h"
#include "api/softmax.h"
#include "gspmd/api/transform.h"

namespace gspmd {

namespace detail {

Exponentials exponentials(Node* x, int64_t axis) {
  Exponentials e;
  e.max = stop_gradient_node(hlo::reduce_max(x, {axis}));
  e.shifted = subtract(x, stretch(e.max, x->dims(), {axis}));
  e.powers = hlo::unary(Opcode::exponential, e.shifted);
  e.sum = hlo::reduce_sum(e.powers, {axis});
  return e;
}

int64_t softmax_axis(Node* x, const AxisOptions& options) {
  need_floating(x);
  const int64_t axis = checked_axis(options.axis, x);
  if (x->dim(axis) == 0) call_error("axis {} of {} has no elements", axis, describe(x));
  return axis;
}

}  // namespace detail

using namespace detail;

namespace {

// `parameter` of shape [m] stretched over x [..., m]. UserError when it does not fit.
Node* over_last_dim(const Operand& parameter, const char* what, Node* x) {
  Node* node = node_of(parameter, x->shape.dtype);
  if (node->rank() == 0 && parameter.is_scalar()) return broadcast_node(node, x->dims());
  if (node->shape.dtype != x->shape.dtype)
    call_error("dtypes of {} and the {} {} differ; convert(x, DType::{}) one of them", describe(x),
               what, describe(node), dtype_name(x->shape.dtype));
  if (node->rank() != 1 || node->dim(0) != x->dims().back())
    call_error("the {} {} must have one dim of {}, the last of {}", what, describe(node),
               x->dims().back(), describe(x));
  return broadcast_node(node, x->dims());
}

Node* norm_input(const Operand& x, const NormOptions& options) {
  Node* node = node_of(x);
  if (!(options.eps >= 0 && std::isfinite(options.eps)))
    call_error("eps {} is wrong; give 0 or more", options.eps);
  need_floating(node);
  if (node->rank() < 1) call_error("{} has no dim to normalise over", describe(node));
  return node;
}

Node* mean_over_last(Node* x) {
  return divide(hlo::reduce_sum(x, {x->rank() - 1}), static_cast<double>(x->dims().back()));
}

Node* over_last(Node* statistic, const Node* x) {
  return stretch(statistic, x->dims(), {x->rank() - 1});
}

// (x - mean) / sqrt(variance + eps), and the factor that it was scaled by.
std::pair<Node*, Node*> standardized_and_scale(Node* given, double eps) {
  Node* x = in_32_bits(given);
  Node* centered = subtract(x, over_last(mean_over_last(x), x));
  Node* variance = mean_over_last(multiply(centered, centered));
  Node* scale = over_last(hlo::unary(Opcode::rsqrt, add(variance, eps)), x);
  return {in_type_of(multiply(centered, scale), given), scale};
}

// Its gradient is written down: its two sums do not wait for each other.
Node* standardized(Node* x, double eps) {
  const auto forward = [&](const Tensor& t) {
    const auto [y, scale] = standardized_and_scale(node_of(t), eps);
    return std::pair{tensor_of(y), tensor_of(scale)};
  };
  const auto backward = [](const std::pair<Tensor, Tensor>& kept, const Tensor& cotangent) {
    Node* y = in_32_bits(node_of(kept.first));
    Node* c = in_32_bits(node_of(cotangent));
    Node* along_y = multiply(y, over_last(mean_over_last(multiply(c, y)), y));
    Node* rest = subtract(subtract(c, over_last(mean_over_last(c), y)), along_y);
    return tensor_of(in_type_of(multiply(rest, node_of(kept.second)), node_of(cotangent)));
  };
  const auto value = custom_vjp([&](const Tensor& t) { return forward(t).first; },
                                [&](const Tensor& t) {
                                  const std::pair<Tensor, Tensor> both = forward(t);
                                  return std::pair{both.first, both};
                                },
                                backward);
  return node_of(value(tensor_of(x)));
}

double mask_value(DType dtype, const CausalMaskOptions& options) {
  if (options.has_value) return options.value;
  return visit_dtype(dtype, [](auto tag) -> double {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, float16>)
      return -32752.0;
    else if constexpr (std::is_same_v<T, bfloat16>)
      return -1.6e38;
    else
      return std::trunc(static_cast<double>(std::numeric_limits<T>::lowest()) / 2);
  });
}

}  // namespace

Tensor relu(Operand x) {
  return call("relu", x.site(), [&] {
    Node* node = node_of(x);
    need_number(node);
    Node* zero = splat_like(node, 0);
    // Not a maximum: the derivative at 0 is 0, and NaN stays NaN.
    return tensor_of(hlo::select(hlo::compare(node, zero, Direction::le), zero, node));
  });
}

Tensor gelu(Operand x) {
  return call("gelu", x.site(), [&] {
    Node* node = node_of(x);
    need_floating(node);
    Node* cube = multiply(multiply(node, node), node);
    Node* inner = multiply(add(node, multiply(cube, 0.044715)), std::sqrt(2 / std::numbers::pi));
    return tensor_of(multiply(multiply(node, 0.5), add(hlo::unary(Opcode::tanh, inner), 1)));
  });
}

Tensor silu(Operand x) {
  return call("silu", x.site(), [&] {
    Node* node = node_of(x);
    need_floating(node);
    return tensor_of(multiply(node, hlo::unary(Opcode::logistic, node)));
  });
}

Tensor softmax(Operand x, const AxisOptions& options) {
  return call("softmax", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t axis = softmax_axis(node, options);
    const Exponentials e = exponentials(node, axis);
    return tensor_of(divide(e.powers, stretch(e.sum, node->dims(), {axis})));
  });
}

Tensor log_softmax(Operand x, const AxisOptions& options) {
  return call("log_softmax", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t axis = softmax_axis(node, options);
    const Exponentials e = exponentials(node, axis);
    return tensor_of(
        subtract(e.shifted, stretch(hlo::unary(Opcode::log, e.sum), node->dims(), {axis})));
  });
}

Tensor logsumexp(Operand x, const AxisOptions& options) {
  return call("logsumexp", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t axis = softmax_axis(node, options);
    // Of a row of -inf, or with an inf, nothing is subtracted; where all powers are 0 the logarithm
    // is taken of 1 instead, so that the gradient is 0 there and not 0/0.
    Node* const max = hlo::reduce_max(node, {axis});
    Node* const zero = splat_like(max, 0);
    Node* const shift =
        stop_gradient_node(hlo::select(hlo::unary(Opcode::is_finite, max), max, zero));
    Node* const powers =
        hlo::unary(Opcode::exponential, subtract(node, stretch(shift, node->dims(), {axis})));
    Node* const sum = hlo::reduce_sum(powers, {axis});
    Node* const none = hlo::compare(sum, zero, Direction::eq);
    Node* const logarithm = hlo::unary(Opcode::log, hlo::select(none, splat_like(max, 1), sum));
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return tensor_of(hlo::select(none, splat_like(max, -kInfinity), add(logarithm, shift)));
  });
}

Tensor rms_norm(Operand x, Operand scale, const NormOptions& options) {
  return call("rms_norm", x.site(), [&] {
    Node* node = norm_input(x, options);
    Node* factor = over_last_dim(scale, "scale", node);
    Node* wide = in_32_bits(node);
    Node* inverse =
        hlo::unary(Opcode::rsqrt, add(mean_over_last(multiply(wide, wide)), options.eps));
    Node* y = in_type_of(multiply(wide, over_last(inverse, wide)), node);
    return tensor_of(multiply(y, factor));
  });
}

Tensor layer_norm(Operand x, Operand scale, const NormOptions& options) {
  return call("layer_norm", x.site(), [&] {
    Node* node = norm_input(x, options);
    Node* factor = over_last_dim(scale, "scale", node);
    return tensor_of(multiply(standardized(node, options.eps), factor));
  });
}

Tensor layer_norm(Operand x, Operand scale, Operand bias, const NormOptions& options) {
  return call("layer_norm", x.site(), [&] {
    Node* node = norm_input(x, options);
    Node* factor = over_last_dim(scale, "scale", node);
    Node* shift = over_last_dim(bias, "bias", node);
    return tensor_of(add(multiply(standardized(node, options.eps), factor), shift));
  });
}

Tensor causal_mask(Operand scores, const CausalMaskOptions& options) {
  return call("causal_mask", scores.site(), [&] {
    Node* node = node_of(scores);
    if (node->rank() < 2)
      call_error("{} has rank {}; scores are [..., query, key]", describe(node), node->rank());
    const int64_t queries = node->dim(node->rank() - 2);
    const int64_t keys = node->dim(node->rank() - 1);
    if (keys < queries)
      call_error("{} has {} queries but {} keys; each query needs its own key", describe(node),
                 queries, keys);
    Computation& c = node->parent();
    const DType dtype = node->shape.dtype;
    Node* value = scalar_node(mask_value(dtype, options), false, dtype);
    const Shape counts(DType::s32, {queries, keys});
    Node* last_key = hlo::iota(c, counts, 0);
    if (keys != queries) last_key = add(last_key, static_cast<double>(keys - queries));
    Node* visible = hlo::compare(last_key, hlo::iota(c, counts, 1), Direction::ge);
    return tensor_of(hlo::select(broadcast_node(visible, node->dims()), node,
                                 broadcast_node(value, node->dims())));
  });
}

}  // namespace gspmd
