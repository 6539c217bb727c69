// Normal numbers in doubles, from pairs of numbers of 53 bits.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normal_doubles.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <numbers>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/random_numbers.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void doubles(const uint32_t* words0, const uint32_t* words1, int64_t n, double* numbers) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lower = hn::Set(du, 0xFFFFFFFFU);
  const auto unit = hn::Set(d, 0x1p-53);
  const auto number = [&](auto low, auto high) HWY_ATTR {
    const auto bits = hn::ShiftRight<11>(hn::Or(hn::ShiftLeft<32>(high), low));
    return hn::Mul(hn::ConvertTo(d, hn::BitCast(di, bits)), unit);
  };
  const auto* const pairs0 = reinterpret_cast<const uint64_t*>(words0);
  const auto* const pairs1 = reinterpret_cast<const uint64_t*>(words1);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto low = hn::LoadU(du, pairs0 + i), high = hn::LoadU(du, pairs1 + i);
    const auto first = number(hn::And(low, lower), hn::And(high, lower));
    const auto second = number(hn::ShiftRight<32>(low), hn::ShiftRight<32>(high));
    // 1 - first is a double exactly.
    const auto log = hn::Log(d, hn::Sub(hn::Set(d, 1.0), first));
    const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), log));
    const auto angle = hn::Mul(hn::Set(d, 2 * std::numbers::pi), second);
    hn::StoreU(hn::Mul(radius, hn::Cos(d, angle)), d, numbers + i);
  }
}

}  // namespace

decltype(&normal_doubles) find_doubles() { return doubles; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_doubles);

void normal_doubles(const uint32_t* words0, const uint32_t* words1, int64_t n, double* numbers) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_doubles)();
  function(words0, words1, n, numbers);
}

}  // namespace gspmd
#endif
