// Transcendental loops with Highway's vector maths.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_math.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/loop_families.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Highway's functions hold on a range; outside it the limits are put in here, and NaN stays NaN.
// y * 2^n for whole n from -300 to 300.
template <class D, class V>
V scale_by_power([[maybe_unused]] D d, V y, V n) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_scalef_ps(y.raw, n.raw)};
#else
  const hn::RebindToSigned<D> di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);  // two steps: 2^n itself may be out of range
  const auto power = [&](auto e) {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))));
  };
  return hn::Mul(hn::Mul(y, power(half)), power(hn::Sub(whole, half)));
#endif
}

struct Exp {
  template <class D, class V>
  static V apply(D d, V x) {
    if constexpr (sizeof(hn::TFromD<D>) == 4)
      return single(d, x);
    else
      return with_limits(d, x);
  }

 private:
  // Results below the normal range cost a processor assist each, and masked-out scores are all
  // there: they become zero without being computed, unless some lane is a true subnormal.
  template <class D, class V>
  static V single(D d, V x) {
    const V least = hn::Set(d, -87.0f);
    const auto low = hn::Lt(x, least);
    if (HWY_LIKELY(hn::AllFalse(d, low))) return reduced(d, x);
    const auto subnormal = hn::And(low, hn::Gt(x, hn::Set(d, -104.0f)));
    if (hn::AllFalse(d, subnormal)) return hn::IfThenZeroElse(low, reduced(d, hn::Max(least, x)));
    return reduced(d, x);
  }
  // 2^n * e^r, |r| <= ln(2) / 2; the polynomial was fitted to (e^r - 1 - r) / r^2, error 7e-8 of
  // it.
  template <class D, class V>
  static V reduced(D d, V x) {
    // NaN stays: Min and Max give their second argument then.
    const V bounded = hn::Max(hn::Set(d, -130.0f), hn::Min(hn::Set(d, 130.0f), x));
    const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504f)));
    V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
    V p = hn::Set(d, 0.00139262134663f);
    p = hn::MulAdd(p, r, hn::Set(d, 0.00836320297158f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.0416665544377f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.16666576846f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
    p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
    return scale_by_power(d, p, n);
  }
  template <class D, class V>
  static V with_limits(D d, V x) {
    using T = hn::TFromD<D>;
    const V limit = hn::Set(d, T(709.782712893384));
    V y = hn::Exp(d, hn::Min(x, limit));
    y = hn::IfThenElse(hn::Gt(x, limit), hn::Set(d, std::numeric_limits<T>::infinity()), y);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
};
// 2^n * e^r - 1 with |r| <= ln(2) / 2, where what rounding took from r is added to e^r - 1.
struct Expm1 {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    constexpr bool kSingle = sizeof(T) == 4;
    const V limit = hn::Set(d, kSingle ? T(88.72283935546875) : T(709.782712893384));
    // Below -45 the result is -1.
    V y = reduced(d, hn::Max(hn::Min(x, limit), hn::Set(d, T(-45))));
    y = hn::IfThenElse(hn::Gt(x, limit), hn::Set(d, std::numeric_limits<T>::infinity()), y);
    // Keeps the sign of zero and all of a tiny argument.
    y = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, std::numeric_limits<T>::min())), x, y);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }

  // (e^r - 1 - r) / r^2: of floats fitted, error 7e-8 of it, of doubles Taylor's.
  template <class D, class V>
  static V tail(D d, V r) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(T) == 4) {
      V p = hn::Set(d, 0.00139262134663f);
      p = hn::MulAdd(p, r, hn::Set(d, 0.00836320297158f));
      p = hn::MulAdd(p, r, hn::Set(d, 0.0416665544377f));
      p = hn::MulAdd(p, r, hn::Set(d, 0.16666576846f));
      return hn::MulAdd(p, r, hn::Set(d, 0.5f));
    } else {
      double factorial = 87178291200;  // of 14
      V p = hn::Set(d, 1 / factorial);
      for (int k = 14; k > 2; --k) {
        factorial /= k;
        p = hn::MulAdd(p, r, hn::Set(d, 1 / factorial));
      }
      return p;
    }
  }
  // For x from -45 to the logarithm of the largest number.
  template <class D, class V>
  static V reduced(D d, V x) {
    using T = hn::TFromD<D>;
    constexpr bool kSingle = sizeof(T) == 4;
    const V n = hn::Round(hn::Mul(x, hn::Set(d, T(1.4426950408889634))));
    const V high = hn::NegMulAdd(n, hn::Set(d, T(kSingle ? 0.693359375 : 0.69314718036912382)), x);
    const V low = hn::Mul(n, hn::Set(d, T(kSingle ? -2.12194440e-4 : 1.9082149292705877e-10)));
    const V r = hn::Sub(high, low);
    const V rest = hn::Sub(hn::Sub(high, r), low);
    const V q = hn::Add(r, hn::MulAdd(hn::Mul(r, r), tail(d, r), rest));
    const hn::RebindToSigned<D> di;
    constexpr int kMantissa = kSingle ? 23 : 52, kBias = kSingle ? 127 : 1023;
    const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, kBias - 1));
    const V half = hn::BitCast(d, hn::ShiftLeft<kMantissa>(exponent));  // 2^n may be out of range
    const V y = hn::MulAdd(half, q, hn::Sub(half, hn::Set(d, T(0.5))));
    // Where n is 0 nothing is added.
    return hn::IfThenElse(hn::Eq(n, hn::Zero(d)), q, hn::Add(y, y));
  }
};
struct Log {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const V infinite = hn::Set(d, std::numeric_limits<T>::infinity());
    const V zero = hn::Zero(d);
    V y = hn::Log(d, x);
    y = hn::IfThenElse(hn::Eq(x, infinite), infinite, y);
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinite), y);
    return hn::IfThenElse(hn::Ge(x, zero), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
  }
};
struct Log1p {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const V infinite = hn::Set(d, std::numeric_limits<T>::infinity());
    const V minus_one = hn::Set(d, T(-1));
    V y = hn::Log1p(d, x);
    y = hn::IfThenElse(hn::Eq(x, infinite), infinite, y);
    y = hn::IfThenElse(hn::Eq(x, minus_one), hn::Neg(infinite), y);
    return hn::IfThenElse(hn::Ge(x, minus_one), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
  }
};
// Of the size of x: near zero an odd polynomial (Cephes, tanhf) or e / (e + 2), e = e^2x - 1;
// further out 1 - 2 / (e + 2).
struct Tanh {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1)), two = hn::Set(d, T(2));
    const V size = hn::Abs(x);
    const V bounded = hn::Min(size, hn::Set(d, T(20)));  // from there on it is 1
    const V e = Expm1::reduced(d, hn::Add(bounded, bounded));
    const auto is_near = hn::Lt(size, hn::Set(d, T(sizeof(T) == 4 ? 0.625 : 0.55)));
    V y;
    if constexpr (sizeof(T) == 4) {
      const V far = hn::Sub(one, hn::Div(two, hn::Add(e, two)));
      y = hn::IfThenElse(is_near, near_zero(d, size), far);
    } else {
      const V ratio = hn::Div(hn::IfThenElse(is_near, e, two), hn::Add(e, two));
      y = hn::IfThenElse(is_near, ratio, hn::Sub(one, ratio));
    }
    y = hn::IfThenElse(hn::Lt(size, hn::Set(d, std::numeric_limits<T>::min())), size, y);
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
  }

 private:
  template <class D, class V>
  static V near_zero(D d, V x) {
    const V z = hn::Mul(x, x);
    V p = hn::Set(d, -5.70498872745e-3f);
    p = hn::MulAdd(p, z, hn::Set(d, 2.06390887954e-2f));
    p = hn::MulAdd(p, z, hn::Set(d, -5.37397155531e-2f));
    p = hn::MulAdd(p, z, hn::Set(d, 1.33314422036e-1f));
    p = hn::MulAdd(p, z, hn::Set(d, -3.33332819422e-1f));
    return hn::MulAdd(hn::Mul(p, z), x, x);
  }
};
// Of the size of x, of floats: x + x p(x^2) near zero, error 6e-9, further out 1 - e^(x q(x)),
// where it is 1e-8 of x q(x) at most. From 3.95 on the nearest float is 1.
struct Erf {
  template <class D, class V>
  static V apply(D d, V x) {
    const V size = hn::Abs(x);
    const V square = hn::Mul(size, size);
    V p = hn::Set(d, -0.000637496414128691f);
    p = hn::MulAdd(p, square, hn::Set(d, 0.0050618816167116165f));
    p = hn::MulAdd(p, square, hn::Set(d, -0.026809535920619965f));
    p = hn::MulAdd(p, square, hn::Set(d, 0.11282911896705627f));
    p = hn::MulAdd(p, square, hn::Set(d, -0.37612593173980713f));
    p = hn::MulAdd(p, square, hn::Set(d, 0.12837916612625122f));
    const V near = hn::MulAdd(p, size, size);
    const auto is_near = hn::Lt(size, hn::Set(d, 0.84375f));
    return hn::CopySign(hn::IfThenElse(is_near, near, far_from_zero(d, size)), x);
  }

 private:
  template <class D, class V>
  static V far_from_zero(D d, V size) {
    // NaN stays: Min gives its second argument then.
    const V bounded = hn::Min(hn::Set(d, 3.96f), size);
    V q = hn::Set(d, 0.00021581024338956922f);
    q = hn::MulAdd(q, bounded, hn::Set(d, -0.0032298730220645666f));
    q = hn::MulAdd(q, bounded, hn::Set(d, 0.022937344387173653f));
    q = hn::MulAdd(q, bounded, hn::Set(d, -0.10533496737480164f));
    q = hn::MulAdd(q, bounded, hn::Set(d, -0.6356634497642517f));
    q = hn::MulAdd(q, bounded, hn::Set(d, -1.1285303831100464f));
    V r = hn::Mul(bounded, q);
    const V n = hn::Round(hn::Mul(r, hn::Set(d, 1.44269504f)));
    r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), r);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
    const V one = hn::Set(d, 1.0f);
    const V e = hn::MulAdd(Expm1::tail(d, r), hn::Mul(r, r), hn::Add(r, one));
    const hn::RebindToSigned<D> di;
    const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
    return hn::NegMulAdd(e, hn::BitCast(d, hn::ShiftLeft<23>(exponent)), one);
  }
};
struct Sqrt {
  template <class D, class V>
  static V apply(D, V x) {
    return hn::Sqrt(x);
  }
};
struct Rsqrt {
  template <class D, class V>
  static V apply(D d, V x) {
    return hn::Div(hn::Set(d, hn::TFromD<D>(1)), hn::Sqrt(x));
  }
};
struct Logistic {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1));
    return hn::Div(one, hn::Add(one, Exp::apply(d, hn::Neg(x))));
  }
};

template <class T, class F>
void math_loop_of(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
                  uint32_t) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T* r = reinterpret_cast<T*>(out);
  const T* x = reinterpret_cast<const T*>(a);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(F::apply(d, hn::LoadU(d, x + i)), d, r + i);
  if (i == n) return;
  HWY_ALIGN T tail[hn::MaxLanes(d)] = {};
  for (int64_t j = i; j < n; ++j) tail[j - i] = x[j];
  hn::Store(F::apply(d, hn::Load(d, tail)), d, tail);
  for (int64_t j = i; j < n; ++j) r[j] = tail[j - i];
}

template <class T>
LoopFunction find_math_of(LoopOp op) {
  switch (op) {
    case LoopOp::exp:
      return math_loop_of<T, Exp>;
    case LoopOp::expm1:
      return math_loop_of<T, Expm1>;
    case LoopOp::log:
      return math_loop_of<T, Log>;
    case LoopOp::log1p:
      return math_loop_of<T, Log1p>;
    case LoopOp::tanh:
      return math_loop_of<T, Tanh>;
    case LoopOp::sqrt:
      return math_loop_of<T, Sqrt>;
    case LoopOp::rsqrt:
      return math_loop_of<T, Rsqrt>;
    case LoopOp::logistic:
      return math_loop_of<T, Logistic>;
    default:
      return nullptr;
  }
}

}  // namespace
LoopFunction find_math_loop(LoopOp op, DType input) {
  if (input == DType::f32 && op == LoopOp::erf) return math_loop_of<float, Erf>;
  if (input == DType::f32) return find_math_of<float>(op);
  if (input == DType::f64) return find_math_of<double>(op);
  return nullptr;
}
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_math_loop);
LoopFunction math_loop(LoopOp op, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_math_loop)(op, input);
}
}  // namespace gspmd
#endif
