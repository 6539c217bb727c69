// Elementwise ops, types and their conversions.

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

Node* sum(Builder& b, Node* x) {
  if (x->shape.dtype == DType::pred) return nullptr;
  const double half = largest(x->shape.dtype) / 2;
  x = b.fitting(x, half);
  Node* y = b.fitting(b.like(x), half);
  const double bound = b.bound(x) + b.bound(y);
  const Opcode opcode = b.draws.chance(60) ? Opcode::add : Opcode::subtract;
  Node* result = hlo::binary(opcode, x, y);
  return is_unsigned_integer(x->shape.dtype) ? b.add(result) : b.add(result, bound);
}

Node* product(Builder& b, Node* x) {
  if (x->shape.dtype == DType::pred) return nullptr;
  const double limit = largest(x->shape.dtype);
  x = b.fitting(x, is_complex(x->shape.dtype) ? 1000 : limit / 8);
  Node* y =
      b.fitting(b.like(x), is_complex(x->shape.dtype) ? 1000 : limit / std::max(b.bound(x), 1.0));
  const double bound = b.bound(x) * b.bound(y) * (is_complex(x->shape.dtype) ? 2 : 1);
  return b.add(hlo::binary(Opcode::multiply, x, y), bound);
}

Node* extreme(Builder& b, Node* x) {
  if (!is_number(x->shape.dtype)) return nullptr;
  Node* y = b.like(x);
  const double bound = std::max(b.bound(x), b.bound(y));
  return b.add(hlo::binary(b.draws.chance(50) ? Opcode::maximum : Opcode::minimum, x, y), bound);
}

Node* of_bits(Builder& b, Node* x) {
  if (!is_integer(x->shape.dtype) && x->shape.dtype != DType::pred) return nullptr;
  static const std::vector<Opcode> all{Opcode::and_, Opcode::or_, Opcode::xor_};
  return hlo::binary(b.draws.one_of(all), x, b.like(x));
}

Node* quotient(Builder& b, Node* x) {
  if (!is_integer(x->shape.dtype)) return nullptr;
  const double divisor = double(b.draws.between(1, 9));
  const Opcode opcode = b.draws.chance(50) ? Opcode::divide : Opcode::remainder;
  return b.add(hlo::binary(opcode, x, hlo::splat(b.c, x->shape, divisor)), b.bound(x));
}

Node* of_one(Builder& b, Node* x) {
  const DType dtype = x->shape.dtype;
  std::vector<Opcode> fits{Opcode::copy, Opcode::optimization_barrier};
  if (dtype != DType::pred) fits.push_back(Opcode::negate);
  if (is_floating(dtype)) fits.insert(fits.end(), {Opcode::floor, Opcode::ceil});
  if (is_number(dtype)) fits.insert(fits.end(), {Opcode::sign, Opcode::abs});
  if (is_integer(dtype)) fits.insert(fits.end(), {Opcode::popcnt, Opcode::not_});
  if (dtype == DType::pred) fits.push_back(Opcode::not_);
  const Opcode opcode = b.draws.one_of(fits);
  Node* y = hlo::unary(opcode, x);
  const bool keeps = !is_integer(dtype) && opcode != Opcode::popcnt;
  return keeps ? b.add(y, b.bound(x)) : y;
}

Node* choice(Builder& b, Node* x) {
  if (x->shape.dtype == DType::pred) return nullptr;
  Node* y = b.like(x);
  static const std::vector<Direction> all{Direction::lt, Direction::ge, Direction::eq,
                                          Direction::ne, Direction::gt, Direction::le};
  Direction direction = b.draws.one_of(all);
  if (is_complex(x->shape.dtype)) direction = Direction::ne;
  Node* p = hlo::compare(x, y, direction);
  if (b.draws.chance(30)) return b.add(p);
  const double bound = std::max(b.bound(x), b.bound(y));
  return b.add(hlo::select(p, x, y), bound);
}

Node* clamped(Builder& b, Node* x) {
  if (!is_number(x->shape.dtype)) return nullptr;
  Node* low = b.scalar(x->shape.dtype, is_unsigned_integer(x->shape.dtype) ? 1 : -3);
  if (b.draws.chance(30)) {
    low = b.like(x);
    Node* high = b.like(x);
    const double bound = std::max({b.bound(low), b.bound(x), b.bound(high)});
    return b.add(emit(b.c, Opcode::clamp, {low, x, high}), bound);
  }
  return b.add(emit(b.c, Opcode::clamp, {low, x, b.scalar(x->shape.dtype, 5)}), 5);
}

Node* converted(Builder& b, Node* x) {
  static const std::vector<DType> all{DType::f32,  DType::f32, DType::s32, DType::u8,
                                      DType::bf16, DType::f16, DType::s8,  DType::u32,
                                      DType::f64,  DType::s64, DType::c64};
  const DType to = b.draws.one_of(all);
  if (to == x->shape.dtype) return nullptr;
  if (is_complex(x->shape.dtype)) {
    const Opcode part = b.draws.chance(50) ? Opcode::real : Opcode::imag;
    const DType dtype = x->shape.dtype == DType::c64 ? DType::f32 : DType::f64;
    return b.add(emit(b.c, part, {x}, {}, Shape(dtype, x->dims())), b.bound(x));
  }
  if (to == DType::c64) {
    x = b.of_shape(Shape(DType::f32, x->dims()));
    Node* imaginary = b.fitting(b.like(x), 4);
    return b.add(emit(b.c, Opcode::complex, {x, imaginary}, {}, Shape(to, x->dims())),
                 std::max(b.bound(x), 4.0));
  }
  x = b.fitting(x, is_integer(to) ? 100 : largest(to));
  const bool loses_sign = is_unsigned_integer(to) && !is_unsigned_integer(x->shape.dtype);
  const double bound = b.bound(x);
  Node* y = hlo::convert(x, to);
  return loses_sign ? b.add(y) : b.add(y, bound);
}

Node* recast(Builder& b, Node* x) {
  const DType dtype = x->shape.dtype;
  if (dtype == DType::f32 && x->rank() < 4 && b.draws.chance(50)) {
    Dims dims = x->dims();
    dims.push_back(4);
    return b.add(emit(b.c, Opcode::bitcast_convert, {x}, {}, Shape(DType::u8, dims)));
  }
  if (dtype == DType::u8 && x->rank() > 1 && x->shape.dims.back() == 4) {
    Dims dims = x->dims();
    dims.pop_back();
    return b.add(emit(b.c, Opcode::bitcast_convert, {x}, {}, Shape(DType::u32, dims)));
  }
  if (dtype != DType::f32 && dtype != DType::s32) return nullptr;
  return b.add(emit(b.c, Opcode::bitcast_convert, {x}, {}, Shape(DType::u32, x->dims())));
}

}  // namespace

std::vector<Family> elementwise_families() {
  return {{4, sum},    {3, product}, {2, extreme}, {1, of_bits},   {1, quotient},
          {3, of_one}, {2, choice},  {1, clamped}, {3, converted}, {1, recast}};
}

}  // namespace gspmd::testing
