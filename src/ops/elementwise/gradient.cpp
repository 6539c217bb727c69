#include "ops/common/gradient.h"

#include <cmath>
#include <numbers>

#include "gspmd/ops/builders.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

Node* mul(Node* a, Node* b) { return hlo::binary(Opcode::multiply, a, b); }
using hlo::add;
Node* sub(Node* a, Node* b) { return hlo::binary(Opcode::subtract, a, b); }
Node* div(Node* a, Node* b) { return hlo::binary(Opcode::divide, a, b); }
Node* neg(Node* a) { return hlo::unary(Opcode::negate, a); }
Node* like(const Node* x, double value) { return hlo::splat(x->parent(), x->shape, value); }

// A real value as a complex one of this type.
Node* as_complex(Node* x, DType dtype) { return hlo::convert(x, dtype); }
Node* square(Node* x) { return mul(x, x); }
Node* root(Node* x) { return hlo::unary(Opcode::sqrt, x); }

// |x| of a complex x: the part of dx along x.
Nodes abs(Node& y, Node* c) {
  Node* const x = y.operand(0);
  Node* const direction = hlo::unary(Opcode::sign, x);
  if (!is_complex(x->shape.dtype)) return {mul(c, direction)};
  return {mul(as_complex(c, x->shape.dtype), conjugated(direction))};
}

// x / |x| of a complex x: the part of dx across x, over |x|; taken as 0 at 0.
Nodes sign(Node& y, Node* c) {
  Node* const x = y.operand(0);
  if (!is_complex(x->shape.dtype)) return {nullptr};
  const DType dtype = x->shape.dtype;
  Node* const size = hlo::unary(Opcode::abs, x);
  Node* const none = hlo::compare(size, like(size, 0), Direction::eq);
  Node* const safe = as_complex(hlo::select(none, like(size, 1), size), dtype);
  Node* const along = as_complex(hlo::unary(Opcode::real, mul(c, &y)), dtype);
  Node* const across = div(sub(c, mul(along, conjugated(&y))), safe);
  return {hlo::select(none, like(x, 0), across)};
}

// One line an op: y is the node, x (a, b) its operands, c the cotangent.
Nodes acos(Node& y, Node* c) { return {neg(div(c, root(sub(like(&y, 1), square(y.operand(0))))))}; }
Nodes acosh(Node& y, Node* c) {
  Node* const x = y.operand(0);
  return {div(c, mul(root(sub(x, like(&y, 1))), root(add(x, like(&y, 1)))))};
}
Nodes asin(Node& y, Node* c) { return {div(c, root(sub(like(&y, 1), square(y.operand(0)))))}; }
Nodes asinh(Node& y, Node* c) { return {div(c, root(add(square(y.operand(0)), like(&y, 1))))}; }
Nodes atan2(Node& y, Node* c) {
  Node* const a = y.operand(0);
  Node* const b = y.operand(1);
  Node* const scaled = div(c, add(square(a), square(b)));
  return {mul(scaled, b), neg(mul(scaled, a))};
}
Nodes atanh(Node& y, Node* c) { return {div(c, sub(like(&y, 1), square(y.operand(0))))}; }
Nodes cbrt(Node& y, Node* c) { return {div(c, mul(like(&y, 3), square(&y)))}; }
Nodes cosh(Node& y, Node* c) { return {mul(c, hlo::unary(Opcode::sinh, y.operand(0)))}; }
Nodes sinh(Node& y, Node* c) { return {mul(c, hlo::unary(Opcode::cosh, y.operand(0)))}; }
Nodes tan(Node& y, Node* c) { return {mul(c, add(square(&y), like(&y, 1)))}; }
Nodes erf(Node& y, Node* c) {  // 2/sqrt(pi) exp(-x^2)
  Node* const bell = hlo::unary(Opcode::exponential, neg(square(y.operand(0))));
  return {mul(c, mul(like(&y, 2 / std::sqrt(std::numbers::pi)), bell))};
}
Nodes real(Node& y, Node* c) { return {as_complex(c, y.operand(0)->shape.dtype)}; }
Nodes imag(Node& y, Node* c) {  // Im dx = Re(-i dx)
  if (!is_complex(y.operand(0)->shape.dtype)) return {nullptr};
  return {hlo::binary(Opcode::complex, like(c, 0), neg(c))};
}
Nodes complex(Node&, Node* c) {
  return {hlo::unary(Opcode::real, c), neg(hlo::unary(Opcode::imag, c))};
}
// As if numbers were not rounded: the cotangent is rounded likewise.
Nodes reduce_precision(Node& y, Node* c) {
  return {emit(y.parent(), Opcode::reduce_precision, {c}, y.attrs)};
}
Nodes cosine(Node& y, Node* c) { return {neg(mul(c, hlo::unary(Opcode::sine, y.operand(0))))}; }
Nodes exponential(Node& y, Node* c) { return {mul(c, &y)}; }
Nodes exponential_minus_one(Node& y, Node* c) { return {mul(c, add(&y, like(&y, 1)))}; }
Nodes log(Node& y, Node* c) { return {div(c, y.operand(0))}; }
Nodes log_plus_one(Node& y, Node* c) { return {div(c, add(y.operand(0), like(&y, 1)))}; }
Nodes logistic(Node& y, Node* c) { return {mul(c, mul(&y, sub(like(&y, 1), &y)))}; }
Nodes negate(Node&, Node* c) { return {neg(c)}; }
Nodes rsqrt(Node& y, Node* c) { return {mul(mul(c, like(&y, -0.5)), div(&y, y.operand(0)))}; }
Nodes sine(Node& y, Node* c) { return {mul(c, hlo::unary(Opcode::cosine, y.operand(0)))}; }
Nodes sqrt(Node& y, Node* c) { return {div(mul(c, like(&y, 0.5)), &y)}; }
Nodes tanh(Node& y, Node* c) { return {mul(c, sub(like(&y, 1), mul(&y, &y)))}; }
Nodes identity(Node&, Node* c) { return {c}; }
Nodes add_gradient(Node&, Node* c) { return {c, c}; }
Nodes subtract(Node&, Node* c) { return {c, neg(c)}; }
Nodes multiply(Node& y, Node* c) { return {mul(c, y.operand(1)), mul(c, y.operand(0))}; }
// Steps: flat where they are differentiable at all.
Nodes none(Node& y, Node*) { return Nodes(y.operands().size(), nullptr); }

Nodes convert(Node& y, Node* c) {
  const DType from = y.operand(0)->shape.dtype;
  if (is_integer(from) || from == DType::pred) return Nodes(y.operands().size(), nullptr);
  if (is_complex(c->shape.dtype) && !is_complex(from)) c = hlo::unary(Opcode::real, c);
  Nodes result(y.operands().size(), nullptr);
  result[0] = hlo::convert(c, from);
  return result;
}

// Bits of one type are the number itself; those of others have no derivative.
Nodes bitcast_convert(Node& y, Node* c) {
  const Shape& from = y.operand(0)->shape;
  if (from.dtype == y.shape.dtype) return {from.dims == y.dims() ? c : hlo::reshape(c, from.dims)};
  const auto is_inexact = [](DType dtype) { return is_floating(dtype) || is_complex(dtype); };
  if (is_inexact(from.dtype) && is_inexact(y.shape.dtype))
    user_error("{}: \"{}\" has no gradient: it reads the bits of {} as {}", opcode_name(y.opcode()),
               y.name(), to_string(from), to_string(y.shape));
  return {nullptr};
}

Nodes divide(Node& y, Node* c) {
  Node* const to_a = div(c, y.operand(1));
  return {to_a, neg(mul(to_a, &y))};
}

// a - b * trunc(a / b), trunc a constant nearly everywhere.
Nodes remainder(Node& y, Node* c) {
  Node* const quotient = div(y.operand(0), y.operand(1));
  Node* const whole = mul(hlo::unary(Opcode::sign, quotient),
                          hlo::unary(Opcode::floor, hlo::unary(Opcode::abs, quotient)));
  return {c, neg(mul(c, whole))};
}

// b a^(b-1), which is 0 for b = 0 also where a is 0; a^b log(a), taken as 0 where a is 0.
Nodes power(Node& y, Node* c) {
  Node* const a = y.operand(0);
  Node* const b = y.operand(1);
  Node* const zero = like(&y, 0);
  Node* const one = like(&y, 1);
  Node* const slope = mul(b, hlo::binary(Opcode::power, a, sub(b, one)));
  Node* const to_a = hlo::select(hlo::compare(b, zero, Direction::eq), zero, slope);
  Node* const base = hlo::select(hlo::compare(a, zero, Direction::eq), one, a);
  return {mul(c, to_a), mul(c, mul(&y, hlo::unary(Opcode::log, base)))};
}

// The one that is chosen; halves where they are equal.
Nodes extremum(Node& y, Node* c) {
  Node* const a = y.operand(0);
  Node* const b = y.operand(1);
  Node* const zero = like(&y, 0);
  if (is_complex(y.shape.dtype)) {  // in lexicographic order
    Node* const to_a = hlo::compare(a, &y, Direction::eq);
    Node* const to_b = hlo::compare(b, &y, Direction::eq);
    Node* const shared =
        hlo::select(hlo::binary(Opcode::and_, to_a, to_b), mul(c, like(&y, 0.5)), c);
    return {hlo::select(to_a, shared, zero), hlo::select(to_b, shared, zero)};
  }
  const Direction wins = y.is(Opcode::maximum) ? Direction::gt : Direction::lt;
  Node* const half = hlo::select(hlo::compare(a, b, Direction::eq), mul(c, like(&y, 0.5)), zero);
  return {hlo::select(hlo::compare(a, b, wins), c, half),
          hlo::select(hlo::compare(b, a, wins), c, half)};
}

Nodes select(Node& y, Node* c) {
  Node* const zero = like(&y, 0);
  return {nullptr, hlo::select(y.operand(0), c, zero), hlo::select(y.operand(0), zero, c)};
}

// To the operand where it is inside or at a bound, else to the bound that it was moved to. The high
// bound is applied last: it wins where the low one is above it.
Nodes clamp(Node& y, Node* c) {
  Node* const x = y.operand(1);
  Node* const zero = like(&y, 0);
  const auto full = [&](Node* bound) {
    return bound->rank() == y.rank() ? bound : hlo::broadcast(bound, y.dims(), {});
  };
  const auto to_bound = [&](Node* bound, Node* part) {
    return bound->rank() == y.rank() ? part : hlo::reduce_sum(part, all_dims(y.rank()));
  };
  if (is_complex(y.shape.dtype)) {  // in lexicographic order
    Node* const is_x = hlo::compare(x, &y, Direction::eq);
    Node* const rest = hlo::select(is_x, zero, c);
    Node* const is_high = hlo::compare(full(y.operand(2)), &y, Direction::eq);
    return {to_bound(y.operand(0), hlo::select(is_high, zero, rest)), hlo::select(is_x, c, zero),
            to_bound(y.operand(2), hlo::select(is_high, rest, zero))};
  }
  Node* const low = full(y.operand(0));
  Node* const raised = hlo::binary(Opcode::maximum, x, low);
  Node* const above = hlo::compare(raised, full(y.operand(2)), Direction::gt);
  Node* const below = hlo::compare(x, low, Direction::lt);
  Node* const rest = hlo::select(above, zero, c);
  return {to_bound(y.operand(0), hlo::select(below, rest, zero)), hlo::select(below, zero, rest),
          to_bound(y.operand(2), hlo::select(above, c, zero))};
}

struct ElementwiseGradientRow {
  Opcode opcode;
  GradientFunction gradient;
};
constexpr ElementwiseGradientRow kElementwiseGradientRows[] = {
    {Opcode::abs, inexact_only<abs>},
    {Opcode::acos, inexact_only<acos>},
    {Opcode::acosh, inexact_only<acosh>},
    {Opcode::add, inexact_only<add_gradient>},
    {Opcode::and_, none},
    {Opcode::asin, inexact_only<asin>},
    {Opcode::asinh, inexact_only<asinh>},
    {Opcode::atan2, floats_only<atan2>},
    {Opcode::atanh, inexact_only<atanh>},
    {Opcode::bitcast, bitcast_convert},
    {Opcode::bitcast_convert, bitcast_convert},
    {Opcode::cbrt, inexact_only<cbrt>},
    {Opcode::ceil, none},
    {Opcode::clamp, inexact_only<clamp>},
    {Opcode::compare, none},
    {Opcode::complex, inexact_only<complex>},
    {Opcode::convert, inexact_only<convert>},
    {Opcode::copy, inexact_only<identity>},
    {Opcode::cosh, inexact_only<cosh>},
    {Opcode::cosine, inexact_only<cosine>},
    {Opcode::count_leading_zeros, none},
    {Opcode::divide, inexact_only<divide>},
    {Opcode::erf, floats_only<erf>},
    {Opcode::exponential, inexact_only<exponential>},
    {Opcode::exponential_minus_one, inexact_only<exponential_minus_one>},
    {Opcode::floor, none},
    {Opcode::imag, inexact_only<imag>},
    {Opcode::is_finite, none},
    {Opcode::log, inexact_only<log>},
    {Opcode::log_plus_one, inexact_only<log_plus_one>},
    {Opcode::logistic, inexact_only<logistic>},
    {Opcode::maximum, inexact_only<extremum>},
    {Opcode::minimum, inexact_only<extremum>},
    {Opcode::multiply, inexact_only<multiply>},
    {Opcode::negate, inexact_only<negate>},
    {Opcode::not_, none},
    {Opcode::or_, none},
    {Opcode::mulhi, none},
    {Opcode::popcnt, none},
    {Opcode::power, inexact_only<power>},
    {Opcode::real, inexact_only<real>},
    {Opcode::reduce_precision, inexact_only<reduce_precision>},
    {Opcode::remainder, floats_only<remainder>},
    {Opcode::round_nearest_afz, none},
    {Opcode::round_nearest_even, none},
    {Opcode::rsqrt, inexact_only<rsqrt>},
    {Opcode::select, inexact_only<select>},
    {Opcode::shift_left, none},
    {Opcode::shift_right_arithmetic, none},
    {Opcode::shift_right_logical, none},
    {Opcode::sign, inexact_only<sign>},
    {Opcode::sine, inexact_only<sine>},
    {Opcode::sinh, inexact_only<sinh>},
    {Opcode::sqrt, inexact_only<sqrt>},
    {Opcode::stochastic_convert, inexact_only<convert>},
    {Opcode::subtract, inexact_only<subtract>},
    {Opcode::tan, inexact_only<tan>},
    {Opcode::tanh, inexact_only<tanh>},
    {Opcode::xor_, none},
};

}  // namespace

decltype(OpInfo::gradient) elementwise_gradient(Opcode opcode) {
  for (const ElementwiseGradientRow& row : kElementwiseGradientRows)
    if (row.opcode == opcode) return row.gradient;
  return nullptr;
}

}  // namespace gspmd
