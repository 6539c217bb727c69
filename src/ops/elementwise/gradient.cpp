#include "ops/common/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

Node* mul(Node* a, Node* b) { return hlo::binary(Opcode::multiply, a, b); }
Node* add(Node* a, Node* b) { return hlo::binary(Opcode::add, a, b); }
Node* sub(Node* a, Node* b) { return hlo::binary(Opcode::subtract, a, b); }
Node* div(Node* a, Node* b) { return hlo::binary(Opcode::divide, a, b); }
Node* neg(Node* a) { return hlo::unary(Opcode::negate, a); }
Node* like(const Node* x, double value) { return hlo::splat(x->parent(), x->shape, value); }

// One line an op: y is the node, x (a, b) its operands, c the cotangent.
Nodes abs(Node& y, Node* c) { return {mul(c, hlo::unary(Opcode::sign, y.operand(0)))}; }
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
  if (!is_floating(from)) return {nullptr};
  return {hlo::convert(c, from)};
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
  Node* const low = full(y.operand(0));
  Node* const raised = hlo::binary(Opcode::maximum, x, low);
  Node* const above = hlo::compare(raised, full(y.operand(2)), Direction::gt);
  Node* const below = hlo::compare(x, low, Direction::lt);
  Node* const rest = hlo::select(above, zero, c);
  return {to_bound(y.operand(0), hlo::select(below, rest, zero)), hlo::select(below, zero, rest),
          to_bound(y.operand(2), hlo::select(above, c, zero))};
}

struct Row {
  Opcode opcode;
  GradientFunction gradient;
};
constexpr Row kRows[] = {
    {Opcode::abs, floats_only<abs>},
    {Opcode::ceil, none},
    {Opcode::cosine, floats_only<cosine>},
    {Opcode::exponential, floats_only<exponential>},
    {Opcode::exponential_minus_one, floats_only<exponential_minus_one>},
    {Opcode::floor, none},
    {Opcode::is_finite, none},
    {Opcode::log, floats_only<log>},
    {Opcode::log_plus_one, floats_only<log_plus_one>},
    {Opcode::logistic, floats_only<logistic>},
    {Opcode::negate, floats_only<negate>},
    {Opcode::not_, none},
    {Opcode::rsqrt, floats_only<rsqrt>},
    {Opcode::sign, none},
    {Opcode::sine, floats_only<sine>},
    {Opcode::sqrt, floats_only<sqrt>},
    {Opcode::tanh, floats_only<tanh>},
    {Opcode::copy, floats_only<identity>},
    {Opcode::convert, floats_only<convert>},
    {Opcode::bitcast_convert, none},
    {Opcode::add, floats_only<add_gradient>},
    {Opcode::subtract, floats_only<subtract>},
    {Opcode::multiply, floats_only<multiply>},
    {Opcode::divide, floats_only<divide>},
    {Opcode::remainder, floats_only<remainder>},
    {Opcode::power, floats_only<power>},
    {Opcode::maximum, floats_only<extremum>},
    {Opcode::minimum, floats_only<extremum>},
    {Opcode::and_, none},
    {Opcode::or_, none},
    {Opcode::xor_, none},
    {Opcode::shift_left, none},
    {Opcode::shift_right_arithmetic, none},
    {Opcode::shift_right_logical, none},
    {Opcode::compare, none},
    {Opcode::select, floats_only<select>},
    {Opcode::clamp, floats_only<clamp>},
};

}  // namespace

decltype(OpInfo::gradient) elementwise_gradient(Opcode opcode) {
  for (const Row& row : kRows)
    if (row.opcode == opcode) return row.gradient;
  return nullptr;
}

}  // namespace gspmd
