// Maxima and minima of vectors of floats, for the files compiled once per instruction set. Included
// inside each target's pass (see hwy/foreach_target.h), hence the toggled guard.
#if defined(GSPMD_EXTREMA_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GSPMD_EXTREMA_INL
#undef GSPMD_EXTREMA_INL
#else
#define GSPMD_EXTREMA_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Bits of floats as integers in the order of the numbers, -0 below +0, and back: negative ones'
// other bits the other way round.
template <class DI>
GSPMD_INLINE hn::Vec<DI> in_order(DI d, hn::Vec<DI> bits) {
  const auto most = hn::Set(d, hwy::LimitsMax<hn::TFromD<DI>>());
  return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), most));
}

// The largest or smallest of the elements of a lane: NaN where one is NaN, -0 below +0. The
// processor's own maximum knows neither; what tells both apart is gathered beside it, so that one
// element waits for the one before only as long as that maximum takes.
template <bool kMax, class D>
class Extremum {
 public:
  using V = hn::Vec<D>;
  GSPMD_INLINE Extremum(D d, V first) : d_(d), best_(first), bits_(first), nan_(hn::IsNaN(first)) {}
  GSPMD_INLINE void add(V x) {
    best_ = kMax ? hn::Max(x, best_) : hn::Min(x, best_);
    bits_ = kMax ? hn::And(bits_, x) : hn::Or(bits_, x);
    nan_ = hn::Or(nan_, hn::IsNaN(x));
  }
  // Where the best is a zero, what is worse has one sign: minus in a maximum, plus in a minimum.
  GSPMD_INLINE V value() const {
    const V zero = hn::And(bits_, hn::SignBit(d_));
    const V best = hn::IfThenElse(hn::Eq(best_, hn::Zero(d_)), zero, best_);
    return hn::IfThenElse(nan_, hn::NaN(d_), best);
  }

 private:
  D d_;
  V best_, bits_;  // bits_: ones where all elements (of a minimum: any) have them
  hn::Mask<D> nan_;
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#endif
