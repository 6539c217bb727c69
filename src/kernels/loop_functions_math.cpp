// Transcendental loops with Highway's vector maths.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_math.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include "hwy/contrib/math/math-inl.h"

#include <cmath>
#include <limits>

#include "kernels/loop_families.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Highway's functions hold on a range; outside it the limits are put in here, and NaN stays NaN.
struct Exp {
  template <class D, class V>
  static V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const T limit = sizeof(T) == 4 ? T(88.72283935546875) : T(709.782712893384);
    const V infinite = hn::Set(d, std::numeric_limits<T>::infinity());
    V y = hn::Exp(d, hn::Min(x, hn::Set(d, limit)));
    y = hn::IfThenElse(hn::Gt(x, hn::Set(d, limit)), infinite, y);
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
    using T = hn::TFromD<D>;
    // Beyond 20 the result is 1 in either type; the bound keeps exp in range.
    const V bounded = hn::Max(hn::Min(x, hn::Set(d, T(20))), hn::Set(d, T(-20)));
    const V y = hn::Tanh(d, bounded);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
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
    case LoopOp::exp: return math_loop_of<T, Exp>;
    case LoopOp::expm1: return math_loop_of<T, Expm1>;
    case LoopOp::log: return math_loop_of<T, Log>;
    case LoopOp::log1p: return math_loop_of<T, Log1p>;
    case LoopOp::tanh: return math_loop_of<T, Tanh>;
    case LoopOp::logistic: return math_loop_of<T, Logistic>;
    default: return nullptr;
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
