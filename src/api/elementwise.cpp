#include "gspmd/api/elementwise.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

Tensor acos(Operand x) { return unary("acos", Opcode::acos, Needs::analytic, x); }
Tensor acosh(Operand x) { return unary("acosh", Opcode::acosh, Needs::analytic, x); }
Tensor asin(Operand x) { return unary("asin", Opcode::asin, Needs::analytic, x); }
Tensor asinh(Operand x) { return unary("asinh", Opcode::asinh, Needs::analytic, x); }
Tensor atanh(Operand x) { return unary("atanh", Opcode::atanh, Needs::analytic, x); }
Tensor cosh(Operand x) { return unary("cosh", Opcode::cosh, Needs::analytic, x); }
Tensor sinh(Operand x) { return unary("sinh", Opcode::sinh, Needs::analytic, x); }
Tensor tan(Operand x) { return unary("tan", Opcode::tan, Needs::analytic, x); }
Tensor cbrt(Operand x) { return unary("cbrt", Opcode::cbrt, Needs::analytic, x); }
Tensor erf(Operand x) { return unary("erf", Opcode::erf, Needs::floating, x); }
Tensor round(Operand x) { return unary("round", Opcode::round_nearest_even, Needs::floating, x); }
Tensor round_away_from_zero(Operand x) {
  return unary("round_away_from_zero", Opcode::round_nearest_afz, Needs::floating, x);
}
Tensor popcount(Operand x) { return unary("popcount", Opcode::popcnt, Needs::integer, x); }
Tensor clz(Operand x) { return unary("clz", Opcode::count_leading_zeros, Needs::integer, x); }
Tensor operator~(Operand x) { return unary("bitwise_not", Opcode::not_, Needs::bits, x); }
Tensor atan2(Operand y, Operand x) { return binary("atan2", Opcode::atan2, Needs::analytic, y, x); }
Tensor operator&(Operand a, Operand b) {
  return binary("bitwise_and", Opcode::and_, Needs::bits, a, b);
}
Tensor operator|(Operand a, Operand b) {
  return binary("bitwise_or", Opcode::or_, Needs::bits, a, b);
}
Tensor operator^(Operand a, Operand b) {
  return binary("bitwise_xor", Opcode::xor_, Needs::bits, a, b);
}
Tensor logical_xor(Operand a, Operand b) {
  return binary("logical_xor", Opcode::xor_, Needs::pred, a, b);
}
Tensor operator<<(Operand x, Operand bits) {
  return binary("shift_left", Opcode::shift_left, Needs::integer, x, bits);
}
Tensor shift_right_logical(Operand x, Operand bits) {
  return binary("shift_right_logical", Opcode::shift_right_logical, Needs::integer, x, bits);
}

Tensor operator>>(Operand x, Operand bits) {
  return call("shift_right", x.site(), [&] {
    const Pair pair = broadcast_pair(x, bits, Needs::integer);
    const bool is_signed = is_signed_integer(pair.a->shape.dtype);
    return tensor_of(hlo::binary(
        is_signed ? Opcode::shift_right_arithmetic : Opcode::shift_right_logical, pair.a, pair.b));
  });
}

namespace {

// f(node) of an operand that check_needs accepts.
template <class F>
Tensor composed(const char* op, Needs needs, const Operand& x, F f) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, needs);
    return tensor_of(f(node));
  });
}

Node* negative(Node* x) { return compare(x, 0, Direction::lt); }
Node* is_nan(Node* x) { return hlo::compare(x, x, Direction::ne); }
Node* either(Node* a, Node* b) { return hlo::binary(Opcode::or_, a, b); }
Node* both(Node* a, Node* b) { return hlo::binary(Opcode::and_, a, b); }
Node* absolute(Node* x) { return hlo::unary(Opcode::abs, x); }

// sum of coefficients[i] x^(n-1-i)
Node* polynomial(Node* x, std::span<const double> coefficients) {
  Node* value = splat_like(x, coefficients[0]);
  for (const double c : coefficients.subspan(1)) value = add(multiply(value, x), c);
  return value;
}

// y with erfc(y) = 1 - |x|, from a guess of at least 4: a fixed point of the asymptotic series of
// erfc, each step of which is some 1 / (2 y^2) as far off as the last.
Node* inverse_far_out(Node* x, Node* guess) {
  static constexpr std::array<double, 7> kSeries{10395. / 64, -945. / 32, 105. / 16, -15. / 8,
                                                 3. / 4,      -1. / 2,    1};
  Node* rest = add(hlo::unary(Opcode::negate, absolute(x)), 1);
  Node* y = guess;
  for (int step = 0; step < 6; ++step) {
    Node* series = polynomial(divide(splat_like(y, 1), multiply(y, y)), kSeries);
    Node* scaled = divide(multiply(multiply(rest, y), std::sqrt(std::numbers::pi)), series);
    y = hlo::unary(Opcode::sqrt, hlo::unary(Opcode::negate, hlo::unary(Opcode::log, scaled)));
  }
  return y;
}

// M. Giles, "Approximating the erfinv function" (2010): good to f32; f64 by two steps of Newton's
// method behind it where erf is steep, and by its series where it is flat.
Node* inverse_of_erf(Node* x) {
  static constexpr std::array<double, 9> kMiddle{2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                                 -0.00417768164,  0.246640727,    1.50140941};
  static constexpr std::array<double, 9> kTails{-0.000200214257, 0.000100950558, 0.00134934322,
                                                -0.00367342844,  0.00573950773,  -0.0076224613,
                                                0.00943887047,   1.00167406,     2.83297682};
  // -log(1 - x^2), the two factors apart so that neither cancels near an end.
  Node* minus = hlo::unary(Opcode::negate, x);
  Node* w = hlo::unary(Opcode::negate, add(hlo::unary(Opcode::log_plus_one, minus),
                                           hlo::unary(Opcode::log_plus_one, x)));
  Node* middle = polynomial(add(w, -2.5), kMiddle);
  Node* tails = polynomial(add(hlo::unary(Opcode::sqrt, w), -3), kTails);
  Node* y = multiply(x, hlo::select(compare(w, 5, Direction::lt), middle, tails));
  if (x->shape.dtype == DType::f64) {
    Node* far = inverse_far_out(x, hlo::binary(Opcode::maximum, absolute(y), splat_like(y, 4)));
    Node* is_flat = compare(w, 21, Direction::gt);  // |y| > 4.4
    y = hlo::select(is_flat, multiply(hlo::unary(Opcode::sign, x), far), y);
    for (int step = 0; step < 2; ++step) {
      Node* slope =
          multiply(hlo::unary(Opcode::exponential, hlo::unary(Opcode::negate, multiply(y, y))),
                   2 / std::sqrt(std::numbers::pi));
      // Where erf is flat, its rounding would move y further than it is off.
      Node* better = subtract(y, divide(subtract(hlo::unary(Opcode::erf, y), x), slope));
      y = hlo::select(is_flat, y, better);
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  Node* end = compare(absolute(x), 1, Direction::eq);
  return hlo::select(end, multiply(x, infinity), y);
}

// The inverse of erf with its own derivatives, up to the fourth: those of the approximation are
// less exact, and NaN where a piece that is not chosen is. With s = sqrt(pi)/2 exp(y^2) they are s,
// 2 y s^2, (2 + 8 y^2) s^3 and (28 y + 48 y^3) s^4; their series around the x that is given adds 0
// to the value.
Node* differentiable_inverse_of_erf(Node* x) {
  Node* at = stop_gradient_node(x);
  Node* y = inverse_of_erf(at);
  Node* y2 = multiply(y, y);
  Node* slope = multiply(hlo::unary(Opcode::exponential, y2), std::sqrt(std::numbers::pi) / 2);
  Node* step = multiply(subtract(x, at), slope);
  Node* sum = multiply(step, multiply(y, add(multiply(y2, 2), 7. / 6)));
  sum = multiply(step, add(sum, add(multiply(y2, 4. / 3), 1. / 3)));
  sum = multiply(step, add(sum, y));
  sum = multiply(step, add(sum, 1));
  return hlo::select(hlo::unary(Opcode::is_finite, y), add(y, sum), y);
}

struct Division {
  Node* quotient;
  Node* rest;
};

// Rounded down, with the rest's sign that of b; what / and remainder leave corrected by one.
Division floor_division(Node* a, Node* b) {
  Node* rest = hlo::remainder(a, b);
  const DType dtype = a->shape.dtype;
  Node* quotient = divide(is_floating(dtype) ? subtract(a, rest) : a, b);
  if (is_floating(dtype)) quotient = hlo::unary(Opcode::round_nearest_even, quotient);
  if (is_unsigned_integer(dtype)) return {quotient, rest};
  Node* wrong = both(compare(rest, 0, Direction::ne),
                     hlo::compare(negative(rest), negative(b), Direction::ne));
  quotient = hlo::select(wrong, add(quotient, -1), quotient);
  rest = hlo::select(wrong, add(rest, b), rest);
  // NumPy's: a / 0 of floats is infinite or NaN.
  if (is_floating(dtype))
    quotient = hlo::select(compare(b, 0, Direction::eq), divide(a, b), quotient);
  return {quotient, rest};
}

DType bits_type(const Node* x) {
  switch (x->shape.dtype) {
    case DType::f16:
    case DType::bf16:
      return DType::u16;
    case DType::f32:
      return DType::u32;
    case DType::f64:
      return DType::u64;
    default:
      call_error("needs f16, bf16, f32 or f64, got {}; convert it first", describe(x));
  }
}

Node* bitcast_node(Node* x, Shape shape) {
  return emit(x->parent(), Opcode::bitcast_convert, {x}, {}, std::move(shape));
}

// Numbers of one sign are ordered as their bits are.
Node* next_after(Node* x, Node* to) {
  const Shape bits(bits_type(x), x->dims());
  Node* word = bitcast_node(x, bits);
  Node* grows =
      hlo::compare(hlo::compare(x, to, Direction::lt), compare(x, 0, Direction::gt), Direction::eq);
  Node* next =
      bitcast_node(hlo::select(grows, add(word, 1), subtract(word, splat_like(word, 1))), x->shape);
  Node* least = bitcast_node(splat_like(word, 1), x->shape);
  Node* from_zero =
      hlo::select(compare(to, 0, Direction::gt), least, hlo::unary(Opcode::negate, least));
  next = hlo::select(compare(x, 0, Direction::eq), from_zero, next);
  next = hlo::select(hlo::compare(x, to, Direction::eq), to, next);
  return hlo::select(either(is_nan(x), is_nan(to)), add(x, to), next);
}

}  // namespace

Tensor atan(Operand x) {
  return composed("atan", Needs::analytic, x,
                  [](Node* n) { return hlo::binary(Opcode::atan2, n, splat_like(n, 1)); });
}
Tensor log2(Operand x) {
  return composed("log2", Needs::analytic, x,
                  [](Node* n) { return divide(hlo::unary(Opcode::log, n), std::numbers::ln2); });
}
Tensor log10(Operand x) {
  return composed("log10", Needs::analytic, x,
                  [](Node* n) { return divide(hlo::unary(Opcode::log, n), std::numbers::ln10); });
}
Tensor reciprocal(Operand x) {
  return composed("reciprocal", Needs::analytic, x,
                  [](Node* n) { return divide(splat_like(n, 1), n); });
}
Tensor erf_inv(Operand x) {
  return composed("erf_inv", Needs::floating, x, differentiable_inverse_of_erf);
}
Tensor trunc(Operand x) {
  return composed("trunc", Needs::floating, x, [](Node* n) {
    return hlo::select(negative(n), hlo::unary(Opcode::ceil, n), hlo::unary(Opcode::floor, n));
  });
}
Tensor isnan(Operand x) { return composed("isnan", Needs::analytic, x, is_nan); }
Tensor isinf(Operand x) {
  return composed("isinf", Needs::floating, x, [](Node* n) {
    return compare(absolute(n), std::numeric_limits<double>::infinity(), Direction::eq);
  });
}

Tensor nextafter(Operand x, Operand to) {
  return call("nextafter", x.site(), [&] {
    const Pair pair = broadcast_pair(x, to, Needs::floating);
    return tensor_of(next_after(pair.a, pair.b));
  });
}

// max + log1p(exp(-|a - b|)); where a - b is NaN, as of two equal infinities, a + b is right.
Tensor logaddexp(Operand a, Operand b) {
  return call("logaddexp", a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, Needs::floating);
    Node* greater = hlo::binary(Opcode::maximum, pair.a, pair.b);
    Node* difference = subtract(pair.a, pair.b);
    Node* rest = hlo::unary(Opcode::negate, absolute(difference));
    Node* sum =
        add(greater, hlo::unary(Opcode::log_plus_one, hlo::unary(Opcode::exponential, rest)));
    return tensor_of(hlo::select(is_nan(difference), add(pair.a, pair.b), sum));
  });
}

Tensor floor_divide(Operand a, Operand b) {
  return call("floor_divide", a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, Needs::real);
    return tensor_of(floor_division(pair.a, pair.b).quotient);
  });
}
Tensor mod(Operand a, Operand b) {
  return call("mod", a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, Needs::real);
    return tensor_of(floor_division(pair.a, pair.b).rest);
  });
}

Tensor complex(Operand real, Operand imag) {
  return call("complex", real.site(), [&] {
    const Pair pair = broadcast_pair(real, imag, Needs::floating);
    const DType dtype = pair.a->shape.dtype;
    if (dtype != DType::f32 && dtype != DType::f64)
      call_error("parts like {} make no complex number; convert them to f32 or f64",
                 describe(pair.a));
    return tensor_of(hlo::binary(Opcode::complex, pair.a, pair.b));
  });
}

namespace {

bool is_complex(const Node* x) { return gspmd::is_complex(x->shape.dtype); }

}  // namespace

Tensor real(Operand x) {
  return composed("real", Needs::number, x,
                  [](Node* n) { return is_complex(n) ? hlo::unary(Opcode::real, n) : n; });
}
Tensor imag(Operand x) {
  return composed("imag", Needs::number, x, [](Node* n) {
    return is_complex(n) ? hlo::unary(Opcode::imag, n) : splat_like(n, 0);
  });
}
Tensor conj(Operand x) {
  return composed("conj", Needs::number, x, [](Node* n) {
    if (!is_complex(n)) return n;
    return hlo::binary(Opcode::complex, hlo::unary(Opcode::real, n),
                       hlo::unary(Opcode::negate, hlo::unary(Opcode::imag, n)));
  });
}
Tensor angle(Operand x) {
  return composed("angle", Needs::analytic, x, [](Node* n) {
    Node* a = is_complex(n) ? hlo::unary(Opcode::real, n) : n;
    Node* b = is_complex(n) ? hlo::unary(Opcode::imag, n) : splat_like(n, 0);
    return hlo::binary(Opcode::atan2, b, a);
  });
}

Tensor clip(Operand x, Operand low, Operand high) {
  return call("clip", x.site(), [&] { return minimum(maximum(x, low), high); });
}

Tensor bitcast(Operand x, DType dtype) {
  return call("bitcast", x.site(), [&] {
    Node* node = node_of(x);
    const DType from = node->shape.dtype;
    if (!is_computable(from) || !is_computable(dtype) || from == DType::pred ||
        dtype == DType::pred)
      call_error("{} to {}: give integers or floats of 8 bits and more", describe(node),
                 dtype_name(dtype));
    Shape shape(dtype, node->dims());
    const int64_t have = dtype_size(from), want = dtype_size(dtype);
    if (have > want) shape.dims.push_back(have / want);
    if (have < want) {
      if (node->rank() == 0 || shape.dims.back() != want / have)
        call_error("{} to {}: the last dim has to be {}, which make one element; reshape first",
                   describe(node), dtype_name(dtype), want / have);
      shape.dims.pop_back();
    }
    return tensor_of(from == dtype ? node : bitcast_node(node, std::move(shape)));
  });
}

Tensor stochastic_convert(Operand x, Operand random, DType dtype) {
  return call("stochastic_convert", x.site(), [&] {
    Node* node = node_of(x);
    Node* bits = node_of(random);
    need_floating(node);
    const DType drawn = bits->shape.dtype;
    if (!is_unsigned_integer(drawn) || dtype_size(drawn) != dtype_size(node->shape.dtype) ||
        bits->dims() != node->dims())
      call_error("{} decides how {} is rounded; give unsigned integers of its width and dims",
                 describe(bits), describe(node));
    if (!is_computable(dtype) || dtype == DType::pred || is_complex(dtype))
      call_error("{} to {}: give a dtype of real numbers", describe(node), dtype_name(dtype));
    return tensor_of(emit(node->parent(), Opcode::stochastic_convert, {node, bits}, {},
                          Shape(dtype, node->dims())));
  });
}
Tensor reduce_precision(Operand x, int64_t exponent_bits, int64_t mantissa_bits) {
  return call("reduce_precision", x.site(), [&] {
    Node* node = node_of(x);
    need_floating(node);
    if (exponent_bits < 1 || mantissa_bits < 0)
      call_error("{} exponent bits and {} mantissa bits; give 1 or more and 0 or more",
                 exponent_bits, mantissa_bits);
    Attributes attrs;
    attrs.scalar.edit().exponent_bits = exponent_bits;
    attrs.scalar.edit().mantissa_bits = mantissa_bits;
    return tensor_of(
        emit(node->parent(), Opcode::reduce_precision, {node}, std::move(attrs), node->shape));
  });
}

}  // namespace gspmd
