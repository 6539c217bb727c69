#include "kernels/loop_code_math.h"

#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace gspmd {
namespace {

using namespace vector_op;

constexpr uint32_t kSign = 0x80000000u;
constexpr int kOrderedLess = 0x11, kEqual = 0, kGreater = 0x1E, kNotGreaterOrEqual = 0x19;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLeast = std::numeric_limits<float>::min();

class Maths {
 public:
  explicit Maths(BlockEmitter& block) : x(block), code(block.code) {}

  // 2^n * e^r, |r| <= ln(2) / 2.
  void exp(Vec to, Vec a) {
    const Vec n = x.temporary(), r = x.temporary(), p = x.temporary();
    // From here down it is 0; those lanes are not scaled, or by 1: results below the normal range
    // cost a processor assist each.
    code.vector(compare_ps, x.mask(0), a, x.constant(-104.0f), 0x16);  // not a <= -104
    code.vector(broadcast_ss, r, x.constant(130.0f));
    if (!x.target.has_masks) x.only(n, a, x.mask(0));
    // NaN stays: the second is the result then.
    code.vector(min_ps, r, r, x.target.has_masks ? a : n);
    x.release(a);
    code.vector(mul_ps, n, r, x.constant(1.44269504f));
    code.vector(round_ps, n, Vec{}, n, 8);
    code.vector(fnmadd231_ps, r, n, x.constant(0.693359375f));
    code.vector(fnmadd231_ps, r, n, x.constant(-2.12194440e-4f));
    tail(p, r);
    const Vec square = x.temporary();
    code.vector(mul_ps, square, r, r);
    code.vector(add_ps, r, r, x.constant(1.0f));
    code.vector(fmadd213_ps, p, square, r);
    if (x.target.has_masks) return code.vector(scalef_ps, to, p, n, 0, {x.mask(0).id, true});
    scale(p, n, square);
    x.only(to, p, x.mask(0));
  }

  void expm1(Vec to, Vec a) {
    const Vec bounded = x.temporary();
    code.vector(min_ps, bounded, a, x.constant(88.72283935546875f));
    code.vector(max_ps, bounded, bounded, x.constant(-45.0f));
    reduced(to, bounded, true);
    code.vector(compare_ps, x.mask(0), a, x.constant(88.72283935546875f), kGreater);
    x.put(to, x.constant(kInfinity), x.mask(0));
    keep_tiny_and_nan(to, a);
  }

  void tanh(Vec to, Vec a) {
    const Vec e = x.temporary();
    code.vector(and_d, e, a, x.constant(~kSign));
    code.vector(broadcast_ss, to, x.constant(20.0f));
    code.vector(min_ps, to, to, e);  // NaN stays, to the end
    code.vector(add_ps, to, to, to);
    reduced(e, to, false);
    const Vec size = x.temporary(), far = x.temporary();
    code.vector(and_d, size, a, x.constant(~kSign));  // again: registers are few
    code.vector(add_ps, e, e, x.constant(2.0f));
    code.vector(broadcast_ss, far, x.constant(2.0f));
    code.vector(div_ps, far, far, e);
    code.vector(broadcast_ss, e, x.constant(1.0f));
    code.vector(sub_ps, far, e, far);
    // Of what is so small that its square is 0 this makes itself.
    const Vec z = e, p = to;
    code.vector(mul_ps, z, size, size);
    polynomial(p, z,
               {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                -3.33332819422e-1f});
    code.vector(mul_ps, p, p, z);
    code.vector(fmadd213_ps, p, size, size);
    code.vector(compare_ps, x.mask(0), size, x.constant(0.625f), kOrderedLess);
    x.blend(to, far, p, x.mask(0));
    with_sign_of(to, a, far);
  }

  void erf(Vec to, Vec a) {
    const Vec size = x.temporary(), r = x.temporary(), n = x.temporary(), p = x.temporary();
    code.vector(and_d, size, a, x.constant(~kSign));
    code.vector(broadcast_ss, r, x.constant(3.96f));
    code.vector(min_ps, r, r, size);  // NaN stays, to the end
    polynomial(p, r,
               {0.00021581024338956922f, -0.0032298730220645666f, 0.022937344387173653f,
                -0.10533496737480164f, -0.6356634497642517f, -1.1285303831100464f});
    code.vector(mul_ps, r, r, p);
    code.vector(mul_ps, n, r, x.constant(1.44269504f));
    code.vector(round_ps, n, Vec{}, n, 8);
    code.vector(fnmadd231_ps, r, n, x.constant(0.693359375f));
    code.vector(fnmadd231_ps, r, n, x.constant(-2.12194440e-4f));
    tail(p, r);
    code.vector(mul_ps, to, r, r);
    code.vector(add_ps, r, r, x.constant(1.0f));
    code.vector(fmadd213_ps, p, to, r);
    code.vector(float_to_int, n, n);
    code.vector(add_d, n, n, x.constant(127u));
    code.shift(left_digit, n, n, 23);
    code.vector(broadcast_ss, to, x.constant(1.0f));
    code.vector(fnmadd231_ps, to, p, n);
    const Vec square = r;
    code.vector(mul_ps, square, size, size);
    polynomial(p, square,
               {-0.000637496414128691f, 0.0050618816167116165f, -0.026809535920619965f,
                0.11282911896705627f, -0.37612593173980713f, 0.12837916612625122f});
    code.vector(fmadd213_ps, p, size, size);
    code.vector(compare_ps, x.mask(0), size, x.constant(0.84375f), kOrderedLess);
    x.blend(to, to, p, x.mask(0));
    with_sign_of(to, a, n);
  }

  void log(Vec to, Vec a) {
    log_of(to, a, true);
    limits(to, a, 0.0f);
  }

  void log1p(Vec to, Vec a) {
    const Vec y = x.temporary(), divisor = x.temporary();
    code.vector(add_ps, y, a, x.constant(1.0f));
    code.vector(compare_ps, x.mask(1), y, x.constant(1.0f), 4);  // not a pole: not equal
    x.only(divisor, y, x.mask(1));
    code.vector(sub_ps, divisor, divisor, x.constant(1.0f));
    log_of(to, y, false);
    code.vector(div_ps, divisor, a, divisor);
    code.vector(mul_ps, to, to, divisor);
    x.blend(to, a, to, x.mask(1));
    limits(to, a, -1.0f);
  }

  void rsqrt(Vec to, Vec a) {
    const Vec root = x.temporary();
    code.vector(sqrt_ps, root, a);
    code.vector(broadcast_ss, to, x.constant(1.0f));
    code.vector(div_ps, to, to, root);
  }

  void logistic(Vec to, Vec a) {
    const Vec negative = x.temporary(), e = x.temporary();
    code.vector(xor_d, negative, a, x.constant(kSign));
    exp(e, negative);
    code.vector(add_ps, e, e, x.constant(1.0f));
    code.vector(broadcast_ss, to, x.constant(1.0f));
    code.vector(div_ps, to, to, e);
  }

 private:
  // Horner's scheme, the highest power first.
  void polynomial(Vec p, Vec r, std::initializer_list<float> factors) {
    bool first = true;
    for (const float factor : factors) {
      if (first)
        code.vector(broadcast_ss, p, x.constant(factor));
      else
        code.vector(fmadd213_ps, p, r, x.constant(factor));
      first = false;
    }
  }
  // Of `to`, which is not below zero.
  void with_sign_of(Vec to, Vec a, Vec lost) {
    if (x.target.has_masks)
      return code.vector(ternary_d, to, a, x.constant(kSign), 0xF8);  // to | (a & sign)
    code.vector(and_d, lost, a, x.constant(kSign));
    code.vector(or_d, to, to, lost);
  }

  // (e^r - 1 - r) / r^2.
  void tail(Vec p, Vec r) {
    polynomial(p, r,
               {0.00139262134663f, 0.00836320297158f, 0.0416665544377f, 0.16666576846f, 0.5f});
  }

  // p * 2^n, |p| about 1, in two steps as 2^n itself may be out of range: half of n goes straight
  // into the exponent. Of NaN n has no bits that get there. n is lost.
  void scale(Vec p, Vec n, Vec half) {
    code.vector(float_to_int, n, n);
    code.shift(right_arithmetic_digit, half, n, 1);
    code.vector(sub_d, n, n, half);
    code.shift(left_digit, half, half, 23);
    code.vector(add_d, p, p, half);
    code.vector(add_d, n, n, x.constant(127u));
    code.shift(left_digit, n, n, 23);
    code.vector(mul_ps, p, p, n);
  }

  // e^a - 1; a is lost. `exact`: also where |a| < 0.3 and half the result is subnormal.
  void reduced(Vec to, Vec a, bool exact) {
    const Vec n = x.temporary(), low = x.temporary(), p = x.temporary();
    const Vec r = exact ? x.temporary() : to;
    code.vector(mul_ps, n, a, x.constant(1.44269504f));
    code.vector(round_ps, n, Vec{}, n, 8);
    const Vec high = a;
    code.vector(fnmadd231_ps, high, n, x.constant(0.693359375f));
    code.vector(mul_ps, low, n, x.constant(-2.12194440e-4f));
    code.vector(sub_ps, r, high, low);
    code.vector(sub_ps, high, high, r);
    const Vec rest = high;
    code.vector(sub_ps, rest, high, low);
    tail(p, r);
    code.vector(mul_ps, low, r, r);
    code.vector(fmadd213_ps, p, low, rest);
    const Vec q = r;
    code.vector(add_ps, q, r, p);
    // Half of 2^n; 2^n itself may be out of range.
    const Vec half = p;
    code.vector(float_to_int, half, n);
    code.vector(add_d, half, half, x.constant(126u));
    code.shift(left_digit, half, half, 23);
    code.vector(sub_ps, low, half, x.constant(0.5f));
    code.vector(fmadd213_ps, half, q, low);
    code.vector(add_ps, to, half, half);
    if (exact) {
      code.vector(compare_ps, x.mask(0), n, x.constant(0.0f), kEqual);
      x.put(to, q, x.mask(0));
    }
    for (const Vec done : {n, low, p}) x.release(done);
  }

  void keep_tiny_and_nan(Vec to, Vec a) {
    const Vec size = x.temporary();
    code.vector(and_d, size, a, x.constant(~kSign));
    code.vector(compare_ps, x.mask(0), size, x.constant(kLeast), kNotGreaterOrEqual);
    x.put(to, a, x.mask(0));
  }

  // For numbers above 0 (hwy/contrib/math: Log).
  void log_of(Vec to, Vec a, bool subnormals) {
    const Vec y = x.temporary(), bits = x.temporary(), e = x.temporary();
    code.vector(move_ps, y, a);
    if (subnormals) {
      code.vector(compare_ps, x.mask(0), a, x.constant(1.175494351e-38f), kOrderedLess);
      x.merge(mul_ps, y, a, x.constant(3.355443200e+7f), x.mask(0));
    }
    code.vector(add_d, bits, y, x.constant(0x3F800000u - 0x3F3504F3u));
    code.shift(right_digit, e, bits, 23);
    code.vector(sub_d, e, e, x.constant(127u));
    if (subnormals) x.merge(sub_d, e, e, x.constant(25u), x.mask(0));
    code.vector(int_to_float, e, e);
    code.vector(and_d, bits, bits, x.constant(0x7FFFFFu));
    code.vector(add_d, y, bits, x.constant(0x3F3504F3u));
    const Vec less = bits, z = x.temporary(), z2 = x.temporary(), z4 = x.temporary();
    code.vector(sub_ps, less, y, x.constant(1.0f));
    code.vector(add_ps, y, y, x.constant(1.0f));
    code.vector(div_ps, z, less, y);
    code.vector(mul_ps, z2, z, z);
    code.vector(mul_ps, z4, z2, z2);
    const Vec even = x.temporary();
    polynomial(y, z4, {0.24279078841f, 0.40000972152f});
    polynomial(even, z4, {0.28498786688f, 0.66666662693f});
    code.vector(mul_ps, y, y, z4);
    code.vector(fmadd213_ps, even, z2, y);
    code.vector(sub_ps, even, less, even);
    code.vector(mul_ps, y, e, x.constant(9.0580006145e-6f));
    code.vector(fmsub213_ps, z, even, y);
    code.vector(sub_ps, z, z, less);
    code.vector(broadcast_ss, y, x.constant(0.69313812256f));
    code.vector(fmsub213_ps, e, y, z);
    code.vector(move_ps, to, e);
  }

  // Infinity stays, the pole gives -infinity, below it and of NaN: NaN.
  void limits(Vec to, Vec a, float pole) {
    code.vector(compare_ps, x.mask(0), a, x.constant(kInfinity), kEqual);
    x.put(to, x.constant(kInfinity), x.mask(0));
    code.vector(compare_ps, x.mask(0), a, x.constant(pole), kEqual);
    x.put(to, x.constant(-kInfinity), x.mask(0));
    code.vector(compare_ps, x.mask(0), a, x.constant(pole), kNotGreaterOrEqual);
    x.put(to, x.constant(std::numeric_limits<float>::quiet_NaN()), x.mask(0));
  }

  BlockEmitter& x;
  LoopEncoder& code;
};

}  // namespace

void emit_math(BlockEmitter& block, LoopOp op, Vec to, Vec a) {
  Maths maths(block);
  switch (op) {
    case LoopOp::exp:
      return maths.exp(to, a);
    case LoopOp::expm1:
      return maths.expm1(to, a);
    case LoopOp::log:
      return maths.log(to, a);
    case LoopOp::log1p:
      return maths.log1p(to, a);
    case LoopOp::tanh:
      return maths.tanh(to, a);
    case LoopOp::erf:
      return maths.erf(to, a);
    case LoopOp::rsqrt:
      return maths.rsqrt(to, a);
    default:
      return maths.logistic(to, a);
  }
}

}  // namespace gspmd
