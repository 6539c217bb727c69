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
V scale_by_power(D d, V y, V n) {
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
struct Expm1 {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const T limit = sizeof(T) == 4 ? T(88.72283935546875) : T(709.782712893384);
    const V infinite = hn::Set(d, std::numeric_limits<T>::infinity());
    V y = hn::Expm1(d, hn::Min(x, hn::Set(d, limit)));
    y = hn::IfThenElse(hn::Gt(x, hn::Set(d, limit)), infinite, y);
    // Keeps the sign of zero and all of a tiny argument.
    y = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, std::numeric_limits<T>::min())), x, y);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
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
struct Tanh {
  template <class D, class V>
  static V apply(D d, V x) {
    if constexpr (sizeof(hn::TFromD<D>) == 4)
      return single(d, x);
    else
      return bounded(d, x);
  }

 private:
  // x P(x^2) / Q(x^2), fitted on [0, 9.02] with relative error 2.1e-8; from there on it is 1.
  template <class D, class V>
  static V single(D d, V x) {
    const V one = hn::Set(d, 1.0f);
    const V b = hn::Max(hn::Set(d, -9.02f), hn::Min(hn::Set(d, 9.02f), x));
    const V z = hn::Mul(b, b);
    V p = hn::Set(d, 1.33187113856e-8f), q = hn::Set(d, 7.76187179732e-7f);
    p = hn::MulAdd(p, z, hn::Set(d, 2.05832222523e-5f));
    q = hn::MulAdd(q, z, hn::Set(d, 3.28306736686e-4f));
    p = hn::MulAdd(p, z, hn::Set(d, 3.49401920273e-3f));
    q = hn::MulAdd(q, z, hn::Set(d, 2.58710156244e-2f));
    p = hn::MulAdd(p, z, hn::Set(d, 0.133797053426f));
    q = hn::MulAdd(q, z, hn::Set(d, 0.467130206578f));
    p = hn::MulAdd(p, z, one);
    q = hn::MulAdd(q, z, one);
    const V y = hn::Div(hn::Mul(b, p), q);
    return hn::Max(hn::Neg(one), hn::Min(one, y));
  }
  template <class D, class V>
  static V bounded(D d, V x) {
    using T = hn::TFromD<D>;
    // Beyond 20 the result is 1; the bound keeps exp in range.
    const V y = hn::Tanh(d, hn::Max(hn::Min(x, hn::Set(d, T(20))), hn::Set(d, T(-20))));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
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
