// Inverse and hyperbolic functions in doubles, with Highway's vector maths.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rare_functions.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/rare_functions.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <RareFunction kFunction, class D, class V>
GSPMD_INLINE V apply_rare(D d, V x) {
  if constexpr (kFunction == RareFunction::acos) return hn::Acos(d, x);
  if constexpr (kFunction == RareFunction::acosh) return hn::Acosh(d, x);
  if constexpr (kFunction == RareFunction::asin) return hn::Asin(d, x);
  if constexpr (kFunction == RareFunction::asinh) return hn::Asinh(d, x);
  if constexpr (kFunction == RareFunction::atanh) return hn::Atanh(d, x);
  if constexpr (kFunction == RareFunction::sinh) return hn::Sinh(d, x);
  const V grown = hn::Exp(d, x);
  return hn::Mul(hn::Add(grown, hn::Div(hn::Set(d, 1.0), grown)), hn::Set(d, 0.5));
}

template <RareFunction kFunction>
void rare_elements(const double* x, int64_t n, double* y) {
  const hn::CappedTag<double, 8> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes)
    hn::StoreU(apply_rare<kFunction>(d, hn::LoadU(d, x + i)), d, y + i);
}

}  // namespace

RareLoop find_rare_loop(RareFunction function) {
  switch (function) {
    case RareFunction::acos:
      return rare_elements<RareFunction::acos>;
    case RareFunction::acosh:
      return rare_elements<RareFunction::acosh>;
    case RareFunction::asin:
      return rare_elements<RareFunction::asin>;
    case RareFunction::asinh:
      return rare_elements<RareFunction::asinh>;
    case RareFunction::atanh:
      return rare_elements<RareFunction::atanh>;
    case RareFunction::cosh:
      return rare_elements<RareFunction::cosh>;
    case RareFunction::sinh:
      return rare_elements<RareFunction::sinh>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_rare_loop);

RareLoop rare_loop(RareFunction function) { return HWY_DYNAMIC_DISPATCH(find_rare_loop)(function); }

}  // namespace gspmd
#endif
