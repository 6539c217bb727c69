// Loops, branches, calls, tuples and annotations in the middle of a program.

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

constexpr double kCarried = 8;  // bound of what loops carry and calls return
constexpr int kDepth = 2;

double carried_bound(const Shape& shape) {
  return is_floating(shape.dtype) || is_complex(shape.dtype) ? kCarried : -1;
}

Node* carried(Builder& b, Node* x) {
  const double bound = carried_bound(x->shape);
  return bound < 0 ? x : b.fitting(x, bound);
}

// The latest value of this shape that is not `not_this`, else any.
Node* result_of(Builder& b, const Shape& shape) {
  for (size_t i = b.values().size(); i-- > 0;)
    if (Node* v = b.values()[i]; v->shape == shape && b.draws.chance(70)) return carried(b, v);
  return carried(b, b.of_shape(shape));
}

std::vector<Node*> some_values(Builder& b, Node* first) {
  std::vector<Node*> list{carried(b, first)};
  for (int64_t more = b.draws.between(0, 2); more > 0; --more) list.push_back(carried(b, b.pick()));
  return list;
}

Shape tuple_shape(const std::vector<Node*>& values) {
  std::vector<Shape> shapes;
  for (const Node* v : values) shapes.push_back(v->shape);
  return Shape::tuple(std::move(shapes));
}

// i < trips, and sometimes also a condition on the data.
Computation* condition(Builder& b, const Shape& state, int64_t trips) {
  Computation* c = b.c.module().add_computation("condition");
  Node* p = hlo::parameter(*c, 0, state);
  Node* goes = hlo::compare(hlo::get_tuple_element(p, 0),
                            hlo::scalar(*c, DType::s32, double(trips)), Direction::lt);
  const auto last = static_cast<int64_t>(state.elements.size()) - 1;
  const Shape& data = state.elements[static_cast<size_t>(last)];
  if (last > 0 && data.dtype == DType::s32 && b.draws.chance(50)) {
    Node* x = hlo::get_tuple_element(p, last);
    Dims all;
    for (int64_t d = 0; d < x->rank(); ++d) all.push_back(d);
    if (!all.empty()) x = b.draws.chance(50) ? hlo::reduce_sum(x, all) : hlo::reduce_max(x, all);
    goes = hlo::binary(Opcode::and_, goes,
                       hlo::compare(x, hlo::scalar(*c, DType::s32, 7), Direction::ne));
  }
  c->set_root(goes);
  return c;
}

Node* looped(Builder& b, Node* x) {
  if (b.depth >= kDepth) return nullptr;
  std::vector<Node*> start = some_values(b, x);
  Node* first = b.scalar(DType::s32, 0);
  if (b.draws.chance(15))
    first = emit(b.c, Opcode::clamp, {b.scalar(DType::s32, 0), b.index(), b.scalar(DType::s32, 3)});
  start.insert(start.begin(), first);
  const Shape state = tuple_shape(start);
  Computation* body = b.c.module().add_computation("body");
  Builder inner(*body, b.draws, b.depth + 1);
  inner.regions = b.regions;
  Node* p = hlo::parameter(*body, 0, state);
  Node* i = inner.add(hlo::get_tuple_element(p, 0), 8);
  for (size_t e = 1; e < start.size(); ++e)
    inner.add(hlo::get_tuple_element(p, int64_t(e)), carried_bound(state.elements[e]));
  const std::vector<Node*> came = inner.values();
  for (int64_t n = b.draws.between(1, 6); n > 0; --n) inner.step();
  std::vector<Node*> next{hlo::binary(Opcode::add, i, inner.scalar(DType::s32, 1))};
  for (size_t e = 1; e < start.size(); ++e)
    next.push_back(b.draws.chance(20) ? came[e] : result_of(inner, state.elements[e]));
  body->set_root(hlo::tuple(*body, next));
  Node* loop = emit(b.c, Opcode::while_, {hlo::tuple(b.c, start)}, {}, {},
                    {condition(b, state, b.draws.between(0, 4)), body});
  Node* last = nullptr;
  for (size_t e = 1; e < start.size(); ++e)
    last = b.add(hlo::get_tuple_element(loop, int64_t(e)), carried_bound(state.elements[e]));
  return last;
}

Node* branched(Builder& b, Node* x) {
  if (b.depth >= kDepth) return nullptr;
  const bool is_pred = b.draws.chance(50);
  Node* selector = b.index();
  if (is_pred)
    selector =
        hlo::compare(selector, b.scalar(DType::s32, double(b.draws.between(0, 4))), Direction::lt);
  const int64_t branches = is_pred ? 2 : b.draws.between(1, 3);
  std::vector<Node*> results = some_values(b, x);
  const Shape result =
      results.size() == 1 && b.draws.chance(50) ? results[0]->shape : tuple_shape(results);
  std::vector<Node*> operands{selector};
  std::vector<Computation*> called;
  for (int64_t i = 0; i < branches; ++i) {
    std::vector<Node*> given = some_values(b, b.pick());
    const bool alone = given.size() == 1 && b.draws.chance(60);
    Node* operand = alone ? given[0] : hlo::tuple(b.c, given);
    operands.push_back(operand);
    called.push_back(
        random_computation(b, {operand->shape}, result, kCarried, b.draws.between(0, 4)));
  }
  Node* made = emit(b.c, Opcode::conditional, operands, {}, {}, called);
  if (!result.is_tuple) return b.add(made, carried_bound(result));
  Node* last = nullptr;
  for (size_t e = 0; e < result.elements.size(); ++e)
    last = b.add(hlo::get_tuple_element(made, int64_t(e)), carried_bound(result.elements[e]));
  return last;
}

Node* called(Builder& b, Node* x) {
  if (b.depth >= kDepth) return nullptr;
  const std::vector<Node*> arguments = some_values(b, x);
  std::vector<Shape> shapes;
  for (const Node* argument : arguments) shapes.push_back(argument->shape);
  const Shape result = b.pick()->shape;
  Computation* c = random_computation(b, shapes, result, kCarried, b.draws.between(1, 4));
  return b.add(emit(b.c, Opcode::call, arguments, {}, result, {c}), carried_bound(result));
}

Node* barred(Builder& b, Node* x) {
  const std::vector<Node*> values{x, b.pick()};
  Node* t = hlo::tuple(b.c, values);
  if (b.draws.chance(60)) t = hlo::unary(Opcode::optimization_barrier, t);
  return b.add(hlo::get_tuple_element(t, b.draws.chance(20)),
               std::max(b.bound(x), b.bound(values[1])));
}

Node* annotated(Builder& b, Node* x) {
  static const std::vector<std::string> targets{"Sharding",         "Sharding",       "Sharding",
                                                "ShardBarrierFrom", "ShardBarrierTo", "MoveToHost"};
  Attributes attrs;
  attrs.custom_call_target = b.draws.one_of(targets);
  return b.add(emit(b.c, Opcode::custom_call, {x}, attrs, x->shape), b.bound(x));
}

// 64 bits of two halves, and a half of them again.
Node* in_halves(Builder& b, Node* x) {
  if (x->shape.dtype != DType::u32) return nullptr;
  Attributes attrs;
  attrs.custom_call_target = "X64Combine";
  const Shape wide(DType::u64, x->dims());
  Node* both = b.add(emit(b.c, Opcode::custom_call, {x, b.like(x)}, attrs, wide));
  attrs.custom_call_target = b.draws.chance(50) ? "X64SplitLow" : "X64SplitHigh";
  return b.add(emit(b.c, Opcode::custom_call, {both}, attrs, x->shape));
}

Node* mapped(Builder& b, Node* x) {
  if (!is_integer(x->shape.dtype)) return nullptr;
  Attributes attrs;
  for (int64_t d = 0; d < x->rank(); ++d) attrs.dimensions.push_back(d);
  return b.add(emit(b.c, Opcode::map, {x, b.like(x)}, attrs, {},
                    {b.combiner(Opcode::xor_, x->shape.dtype)}));
}

}  // namespace

Computation* random_computation(Builder& caller, const std::vector<Shape>& parameters,
                                const Shape& result, double bound, int64_t operations) {
  Computation* c = caller.c.module().add_computation("region");
  Builder inner(*c, caller.draws, caller.depth + 1);
  inner.regions = caller.regions;
  const auto bound_of = [&](const Shape& s) {
    return is_floating(s.dtype) || is_complex(s.dtype) ? bound : -1;
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    Node* p = hlo::parameter(*c, int64_t(i), parameters[i]);
    if (!p->shape.is_tuple) inner.add(p, bound_of(p->shape));
    for (size_t e = 0; e < p->shape.elements.size() && p->shape.is_tuple; ++e)
      inner.add(hlo::get_tuple_element(p, int64_t(e)), bound_of(p->shape.elements[e]));
  }
  for (; operations > 0; --operations) inner.step();
  if (!result.is_tuple) {
    c->set_root(result_of(inner, result));
    return c;
  }
  std::vector<Node*> results;
  for (const Shape& shape : result.elements) results.push_back(result_of(inner, shape));
  c->set_root(hlo::tuple(*c, results));
  return c;
}

bool is_program(const Computation& called) {
  return called.name().rfind("body", 0) == 0 || called.name().rfind("region", 0) == 0;
}

std::vector<Family> control_families() {
  return {{3, looped},    {2, branched}, {1, called},   {1, barred},
          {1, annotated}, {1, mapped},   {1, in_halves}};
}

}  // namespace gspmd::testing
