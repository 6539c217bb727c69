// Ops in which the order of elements along a dim matters: sort, top-k, scan; and random bits.

#include <cmath>

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

Computation* before(Module& module, DType key, Direction direction, int64_t operands, DType other) {
  Computation* c = module.add_computation("before");
  for (int64_t i = 0; i < 2 * operands; ++i) hlo::parameter(*c, i, Shape(i < 2 ? key : other, {}));
  c->set_root(hlo::compare(c->parameters()[0], c->parameters()[1], direction));
  return c;
}

Node* sorted(Builder& b, Node* x) {
  if (x->rank() == 0 || !is_number(x->shape.dtype)) return nullptr;
  Attributes attrs;
  const int64_t dim = b.draws.below(x->rank());
  attrs.dimensions = {dim};
  ScalarAttributes scalar;
  scalar.is_stable = true;
  attrs.scalar = scalar;
  const Direction direction = b.draws.chance(50) ? Direction::lt : Direction::gt;
  const DType dtype = x->shape.dtype;
  const double bound = b.bound(x);
  if (b.draws.chance(40))
    return b.add(
        emit(b.c, Opcode::sort, {x}, attrs, {}, {before(b.c.module(), dtype, direction, 1, dtype)}),
        bound);
  Node* second = b.draws.chance(50) ? hlo::iota(b.c, Shape(DType::s32, x->dims()), dim) : b.like(x);
  const double bound_of_second =
      second->shape.dtype == DType::s32 && second->is(Opcode::iota) ? 9 : b.bound(second);
  Node* pair = emit(b.c, Opcode::sort, {x, second}, attrs, {},
                    {before(b.c.module(), dtype, direction, 2, second->shape.dtype)});
  Node* keys = b.add(hlo::get_tuple_element(pair, 0), bound);
  if (b.draws.chance(30)) return keys;
  return b.add(hlo::get_tuple_element(pair, 1), bound_of_second);
}

Node* top(Builder& b, Node* x) {
  if (x->rank() == 0 || !is_integer(x->shape.dtype)) return nullptr;
  Attributes attrs;
  ScalarAttributes scalar;
  scalar.k = b.draws.between(1, x->shape.dims.back());
  scalar.largest = b.draws.chance(70);
  attrs.scalar = scalar;
  const double bound = b.bound(x);
  Node* pair = emit(b.c, Opcode::topk, {x}, attrs);
  Node* at = b.add(hlo::get_tuple_element(pair, 1), 9);
  if (b.draws.chance(30)) return at;
  return b.add(hlo::get_tuple_element(pair, 0), bound);
}

// Prefix sums by a computation on whole slices.
Node* scanned(Builder& b, Node* x) {
  const DType dtype = x->shape.dtype;
  if (x->rank() == 0 || !is_number(dtype)) return nullptr;
  const int64_t dim = b.draws.below(x->rank());
  Dims slice = x->dims();
  slice.erase(slice.begin() + dim);
  const double steps = double(x->dim(dim)) + 1;
  x = b.fitting(x, std::floor(largest(dtype) / steps / 2));
  Node* start = b.fitting(b.of_shape(Shape(dtype, slice)), std::floor(largest(dtype) / steps / 2));
  Module& module = b.c.module();
  Computation* body = module.add_computation("running");
  Node* in = hlo::parameter(*body, 0, Shape(dtype, slice));
  Node* carry = hlo::parameter(*body, 1, Shape(dtype, slice));
  const Opcode opcode = b.draws.chance(60) ? Opcode::add : Opcode::maximum;
  Node* next = hlo::binary(opcode, carry, in);
  Node* out = b.draws.chance(50) ? next : carry;
  body->set_root(hlo::tuple(*body, {out, next}));
  Attributes attrs;
  attrs.dimensions = {dim};
  ScalarAttributes scalar;
  scalar.num_carries = 1;
  scalar.is_reverse = b.draws.chance(30);
  if (b.draws.chance(50) && out == next) scalar.is_associative = true;
  attrs.scalar = scalar;
  const double bound = b.bound(x) * steps + b.bound(start);
  Node* pair = emit(b.c, Opcode::scan, {x, start}, attrs, {}, {body});
  Node* rows = b.add(hlo::get_tuple_element(pair, 0), bound);
  if (b.draws.chance(60)) return rows;
  return b.add(hlo::get_tuple_element(pair, 1), bound);
}

Node* random_bits(Builder& b, Node*) {
  static const std::vector<std::string> algorithms{"rng_three_fry", "rng_philox", "rng_default"};
  static const std::vector<DType> types{DType::u32, DType::u32, DType::u8, DType::s32};
  Attributes attrs;
  ScalarAttributes scalar;
  scalar.algorithm = b.draws.one_of(algorithms);
  attrs.scalar = scalar;
  Node* seed = hlo::splat(b.c, Shape(DType::u64, {2}), double(b.draws.below(9)));
  const Shape bits(b.draws.one_of(types), b.sizes(b.draws.between(1, 3)));
  const Shape result = Shape::tuple({seed->shape, bits});
  Node* pair = emit(b.c, Opcode::rng_bit_generator, {seed}, attrs, result);
  return b.add(hlo::get_tuple_element(pair, 1));
}

Node* uniform(Builder& b, Node*) {
  static const std::vector<DType> types{DType::f32, DType::s32, DType::u8};
  Attributes attrs;
  ScalarAttributes scalar;
  scalar.distribution = "rng_uniform";
  attrs.scalar = scalar;
  const Shape shape(b.draws.one_of(types), b.sizes(b.draws.between(1, 3)));
  Node* numbers =
      emit(b.c, Opcode::rng, {b.scalar(shape.dtype, 0), b.scalar(shape.dtype, 8)}, attrs, shape);
  return b.add(is_floating(shape.dtype) ? hlo::unary(Opcode::floor, numbers) : numbers, 8);
}

}  // namespace

std::vector<Family> order_families() {
  return {{3, sorted}, {1, top}, {2, scanned}, {1, random_bits}, {1, uniform}};
}

}  // namespace gspmd::testing
