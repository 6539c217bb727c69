#include "gspmd/api/math.h"

#include "api/emit.h"

namespace gspmd {

using namespace detail;

Axes::Axes(int axis) : Axes(int64_t{axis}) {}
Axes::Axes(int64_t axis) : Axes(std::vector<int64_t>{axis}) {}
Axes::Axes(std::initializer_list<int64_t> axes) : Axes(std::vector<int64_t>(axes)) {}
Axes::Axes(std::vector<int64_t> axes) : axes_(std::move(axes)), all_(false) {}

namespace {

Tensor reduction(const char* op, Opcode opcode, Needs needs, const Operand& x,
                 const ReduceOptions& options, bool is_mean = false) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, needs);
    const std::vector<int64_t> axes = axes_of(options.axes, node);
    int64_t count = 1;
    for (const int64_t axis : axes) count *= node->dim(axis);
    Node* result = reduce_with(opcode, node, axes);
    if (is_mean) result = divide(result, static_cast<double>(count));
    return tensor_of(options.keep_dims ? keep_dims(result, node, axes) : result);
  });
}

}  // namespace

Tensor exp(Operand x) { return unary("exp", Opcode::exponential, Needs::analytic, x); }
Tensor expm1(Operand x) {
  return unary("expm1", Opcode::exponential_minus_one, Needs::analytic, x);
}
Tensor log(Operand x) { return unary("log", Opcode::log, Needs::analytic, x); }
Tensor log1p(Operand x) { return unary("log1p", Opcode::log_plus_one, Needs::analytic, x); }
Tensor tanh(Operand x) { return unary("tanh", Opcode::tanh, Needs::analytic, x); }
Tensor sigmoid(Operand x) { return unary("sigmoid", Opcode::logistic, Needs::analytic, x); }
Tensor sqrt(Operand x) { return unary("sqrt", Opcode::sqrt, Needs::analytic, x); }
Tensor rsqrt(Operand x) { return unary("rsqrt", Opcode::rsqrt, Needs::analytic, x); }
Tensor sin(Operand x) { return unary("sin", Opcode::sine, Needs::analytic, x); }
Tensor cos(Operand x) { return unary("cos", Opcode::cosine, Needs::analytic, x); }
Tensor floor(Operand x) { return unary("floor", Opcode::floor, Needs::floating, x); }
Tensor ceil(Operand x) { return unary("ceil", Opcode::ceil, Needs::floating, x); }
Tensor abs(Operand x) { return unary("abs", Opcode::abs, Needs::number, x); }
Tensor sign(Operand x) { return unary("sign", Opcode::sign, Needs::number, x); }
Tensor is_finite(Operand x) { return unary("is_finite", Opcode::is_finite, Needs::floating, x); }
Tensor logical_not(Operand x) { return unary("logical_not", Opcode::not_, Needs::pred, x); }
Tensor operator-(Operand x) { return unary("negate", Opcode::negate, Needs::number, x); }

Tensor square(Operand x) {
  return call("square", x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::number);
    return tensor_of(multiply(node, node));
  });
}

Tensor operator+(Operand a, Operand b) { return binary("add", Opcode::add, Needs::number, a, b); }
Tensor operator-(Operand a, Operand b) {
  return binary("subtract", Opcode::subtract, Needs::number, a, b);
}
Tensor operator*(Operand a, Operand b) {
  return binary("multiply", Opcode::multiply, Needs::number, a, b);
}
Tensor operator/(Operand a, Operand b) {
  return binary("divide", Opcode::divide, Needs::number, a, b);
}
Tensor& operator+=(Tensor& a, Operand b) { return a = Operand(a, b.site()) + b; }
Tensor& operator-=(Tensor& a, Operand b) { return a = Operand(a, b.site()) - b; }
Tensor& operator*=(Tensor& a, Operand b) { return a = Operand(a, b.site()) * b; }
Tensor& operator/=(Tensor& a, Operand b) { return a = Operand(a, b.site()) / b; }

Tensor operator<(Operand a, Operand b) { return compare("less", Direction::lt, a, b); }
Tensor operator<=(Operand a, Operand b) { return compare("less_equal", Direction::le, a, b); }
Tensor operator>(Operand a, Operand b) { return compare("greater", Direction::gt, a, b); }
Tensor operator>=(Operand a, Operand b) { return compare("greater_equal", Direction::ge, a, b); }
Tensor equal(Operand a, Operand b) { return compare("equal", Direction::eq, a, b); }
Tensor not_equal(Operand a, Operand b) { return compare("not_equal", Direction::ne, a, b); }

Tensor maximum(Operand a, Operand b) {
  return binary("maximum", Opcode::maximum, Needs::real, a, b);
}
Tensor minimum(Operand a, Operand b) {
  return binary("minimum", Opcode::minimum, Needs::real, a, b);
}
Tensor pow(Operand a, Operand b) { return binary("pow", Opcode::power, Needs::analytic, a, b); }
Tensor remainder(Operand a, Operand b) {
  return binary("remainder", Opcode::remainder, Needs::real, a, b);
}
Tensor logical_and(Operand a, Operand b) {
  return binary("logical_and", Opcode::and_, Needs::pred, a, b);
}
Tensor logical_or(Operand a, Operand b) {
  return binary("logical_or", Opcode::or_, Needs::pred, a, b);
}

namespace {

Tensor choose(const char* op, const Operand& condition, const Operand& a, const Operand& b) {
  return call(op, condition.site(), [&] {
    Node* chooser = node_of(condition, DType::pred);
    if (chooser->shape.dtype != DType::pred)
      call_error("the condition must be pred, got {}; compare with 0 first", describe(chooser));
    // Two numbers meet no tensor of their kind: they are s32, or f32 where one is floating, as JAX
    // takes them.
    const bool numbers = a.is_scalar() && b.is_scalar();
    const DType dtype = a.is_integral() && b.is_integral() ? DType::s32 : DType::f32;
    auto [left, right] = numbers ? std::pair{node_of(a, dtype), node_of(b, dtype)} : nodes_of(a, b);
    // The three broadcast as one: first the values, then both with the condition.
    Dims dims = broadcast_dims(left, right);
    left = broadcast_node(left, dims);
    dims = broadcast_dims(chooser, left);
    return tensor_of(hlo::select(broadcast_node(chooser, dims), broadcast_node(left, dims),
                                 broadcast_node(right, dims)));
  });
}

}  // namespace

Tensor where(Operand condition, Operand a, Operand b) { return choose("where", condition, a, b); }
Tensor select(Operand condition, Operand a, Operand b) { return choose("select", condition, a, b); }

Tensor clamp(Operand low, Operand x, Operand high) {
  return call("clamp", x.site(), [&] { return minimum(maximum(x, low), high); });
}

Tensor sum(Operand x, const ReduceOptions& options) {
  return reduction("sum", Opcode::add, Needs::number, x, options);
}
Tensor mean(Operand x, const ReduceOptions& options) {
  return reduction("mean", Opcode::add, Needs::analytic, x, options, true);
}
Tensor max(Operand x, const ReduceOptions& options) {
  return reduction("max", Opcode::maximum, Needs::real, x, options);
}
Tensor min(Operand x, const ReduceOptions& options) {
  return reduction("min", Opcode::minimum, Needs::real, x, options);
}

Tensor convert(Operand x, DType dtype) {
  return call("convert", x.site(), [&] {
    Node* node = node_of(x, dtype);
    if (!is_computable(dtype) && !is_complex(dtype))
      call_error("{} to {}: this type is not supported; use an integer, floating or complex type",
                 describe(node), dtype_name(dtype));
    if (is_complex(node->shape.dtype) && !is_complex(dtype))
      call_error("{} to {}: the imaginary part would be lost; take real(x), imag(x) or abs(x)",
                 describe(node), dtype_name(dtype));
    return tensor_of(node->shape.dtype == dtype ? node : hlo::convert(node, dtype));
  });
}

Tensor stop_gradient(Operand x) {
  return call("stop_gradient", x.site(), [&] { return tensor_of(stop_gradient_node(node_of(x))); });
}

}  // namespace gspmd
