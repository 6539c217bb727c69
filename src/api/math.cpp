#include "gspmd/api/math.h"

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

enum class Needs { floating, number, pred, any };

void check_needs(const Node* x, Needs needs) {
  const DType dtype = x->shape.dtype;
  if (needs == Needs::floating) need_floating(x);
  if (needs == Needs::number) need_number(x);
  if (needs == Needs::pred && dtype != DType::pred)
    call_error("needs pred values, got {}; compare with 0 first", describe(x));
}

Tensor unary(const char* op, Opcode opcode, Needs needs, const Operand& x) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, needs);
    return tensor_of(hlo::unary(opcode, node));
  });
}

struct Pair {
  Node* a;
  Node* b;
};

Pair broadcast_pair(const Operand& a, const Operand& b, Needs needs) {
  auto [left, right] = nodes_of(a, b);
  check_needs(left, needs);
  const Dims dims = broadcast_dims(left, right);
  return {broadcast_node(left, dims), broadcast_node(right, dims)};
}

Tensor binary(const char* op, Opcode opcode, Needs needs, const Operand& a, const Operand& b) {
  return call(op, a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, needs);
    return tensor_of(hlo::binary(opcode, pair.a, pair.b));
  });
}

Tensor compare(const char* op, Direction direction, const Operand& a, const Operand& b) {
  return call(op, a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, Needs::any);
    return tensor_of(hlo::compare(pair.a, pair.b, direction));
  });
}

std::vector<int64_t> axes_of(const Axes& axes, const Node* x) {
  if (!axes.all()) return checked_axes(axes.list(), x);
  std::vector<int64_t> every(static_cast<size_t>(x->rank()));
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<int64_t>(i);
  return every;
}

Node* reduce_with(Opcode opcode, Node* x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  if (opcode == Opcode::add) return hlo::reduce_sum(x, axes);
  if (opcode == Opcode::maximum) return hlo::reduce_max(x, axes);
  Computation& c = x->parent();
  Node* init = hlo::scalar(c, x->shape.dtype, combiner_identity(Combiner::min, x->shape.dtype));
  return hlo::reduce(x, init, axes, binary_computation(c.module(), opcode, x->shape.dtype));
}

Node* keep_dims(Node* reduced, const Node* x, const std::vector<int64_t>& axes) {
  Dims dims = x->dims();
  for (const int64_t axis : axes) dims[static_cast<size_t>(axis)] = 1;
  return axes.empty() ? reduced : hlo::reshape(reduced, dims);
}

Tensor reduction(const char* op, Opcode opcode, const Operand& x, const ReduceOptions& options,
                 bool is_mean) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, is_mean ? Needs::floating : Needs::number);
    const std::vector<int64_t> axes = axes_of(options.axes, node);
    int64_t count = 1;
    for (const int64_t axis : axes) count *= node->dim(axis);
    Node* result = reduce_with(opcode, node, axes);
    if (is_mean) result = divide(result, static_cast<double>(count));
    return tensor_of(options.keep_dims ? keep_dims(result, node, axes) : result);
  });
}

}  // namespace

Tensor exp(Operand x) { return unary("exp", Opcode::exponential, Needs::floating, x); }
Tensor expm1(Operand x) {
  return unary("expm1", Opcode::exponential_minus_one, Needs::floating, x);
}
Tensor log(Operand x) { return unary("log", Opcode::log, Needs::floating, x); }
Tensor log1p(Operand x) { return unary("log1p", Opcode::log_plus_one, Needs::floating, x); }
Tensor tanh(Operand x) { return unary("tanh", Opcode::tanh, Needs::floating, x); }
Tensor sigmoid(Operand x) { return unary("sigmoid", Opcode::logistic, Needs::floating, x); }
Tensor sqrt(Operand x) { return unary("sqrt", Opcode::sqrt, Needs::floating, x); }
Tensor rsqrt(Operand x) { return unary("rsqrt", Opcode::rsqrt, Needs::floating, x); }
Tensor sin(Operand x) { return unary("sin", Opcode::sine, Needs::floating, x); }
Tensor cos(Operand x) { return unary("cos", Opcode::cosine, Needs::floating, x); }
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
  return binary("maximum", Opcode::maximum, Needs::number, a, b);
}
Tensor minimum(Operand a, Operand b) {
  return binary("minimum", Opcode::minimum, Needs::number, a, b);
}
Tensor pow(Operand a, Operand b) { return binary("pow", Opcode::power, Needs::floating, a, b); }
Tensor remainder(Operand a, Operand b) {
  return binary("remainder", Opcode::remainder, Needs::number, a, b);
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
    auto [left, right] = nodes_of(a, b);
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
  return reduction("sum", Opcode::add, x, options, false);
}
Tensor mean(Operand x, const ReduceOptions& options) {
  return reduction("mean", Opcode::add, x, options, true);
}
Tensor max(Operand x, const ReduceOptions& options) {
  return reduction("max", Opcode::maximum, x, options, false);
}
Tensor min(Operand x, const ReduceOptions& options) {
  return reduction("min", Opcode::minimum, x, options, false);
}

Tensor convert(Operand x, DType dtype) {
  return call("convert", x.site(), [&] {
    Node* node = node_of(x, dtype);
    if (!is_computable(dtype))
      call_error("{} to {}: this type is not supported; use an integer or floating type",
                 describe(node), dtype_name(dtype));
    return tensor_of(node->shape.dtype == dtype ? node : hlo::convert(node, dtype));
  });
}

Tensor stop_gradient(Operand x) {
  return call("stop_gradient", x.site(), [&] { return tensor_of(stop_gradient_node(node_of(x))); });
}

}  // namespace gspmd
