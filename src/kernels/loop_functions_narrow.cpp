// Numbers of 8 and 16 bits and less: read into f32 or s32 and stored from there.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_narrow.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <bit>
#include <cmath>

#include "base/narrow_format.h"
#include "kernels/loop_elementwise-inl.h"
#include "kernels/loop_families.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kSign = INT32_MIN, kInfinity = 0x7f800000, kNan = 0x7fc00000;

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// The bits of f32 of codes in 32-bit lanes.
template <NarrowFormat F>
struct ReadFloat {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V codes) {
    constexpr int kFraction = F.mantissa_bits;
    const hn::RebindToFloat<D> df;
    const V magnitude = hn::And(codes, hn::Set(d, F.sign() - 1));
    const auto step = hn::Set(df, power_of_two(1 - F.bias - kFraction));
    const V small = hn::BitCast(d, hn::Mul(hn::ConvertTo(df, magnitude), step));
    const V normal =
        hn::Add(hn::ShiftLeft<23 - kFraction>(magnitude), hn::Set(d, (127 - F.bias) << 23));
    V bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 1 << kFraction)), small, normal);
    if constexpr (F.largest() < F.sign() - 1)
      bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, F.largest())), hn::Set(d, kNan), bits);
    if constexpr (F.infinity() != 0)
      bits =
          hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, F.infinity())), hn::Set(d, kInfinity), bits);
    const V sign = hn::And(codes, hn::Set(d, F.sign()));
    bits = hn::Or(bits, hn::ShiftLeft<31 - F.exponent_bits - kFraction>(sign));
    if constexpr (F.special == NarrowFormat::sign_nan)
      bits = hn::IfThenElse(hn::Eq(bits, hn::Set(d, kSign)), hn::Set(d, kNan), bits);
    return bits;
  }
};

template <class F>
void read_codes(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
                uint32_t) {
  int32_t* r = reinterpret_cast<int32_t*>(out);
  const uint8_t* x = reinterpret_cast<const uint8_t*>(a);
  const auto read = [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint8_t, decltype(d)> narrow;
    hn::StoreU(F::apply(d, hn::PromoteTo(d, hn::LoadU(narrow, x + i))), d, r + i);
  };
  const hn::ScalableTag<int32_t> d;
  const hn::CappedTag<int32_t, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) read(d, i);
  for (; i < n; ++i) read(one, i);
}

// On plain integers, without branches, so that loops vectorise.
// Ties to even; below the normal numbers by adding what has the smallest of them as its last place.
template <NarrowFormat F>
struct RoundFloat {
  static uint8_t apply(float value) {
    constexpr int kFraction = F.mantissa_bits, kCut = 23 - kFraction;
    constexpr float kLastPlaces = power_of_two(24 - F.bias - kFraction);
    const uint32_t bits = std::bit_cast<uint32_t>(value), u = bits & INT32_MAX;
    const uint32_t rounded = u + ((1u << (kCut - 1)) - 1) + (u >> kCut & 1);
    const auto normal =
        static_cast<int32_t>(rounded >> kCut) - static_cast<int32_t>((127 - F.bias) << kFraction);
    const uint32_t sum = std::bit_cast<uint32_t>(std::bit_cast<float>(u) + kLastPlaces);
    const auto small = static_cast<int32_t>(sum - std::bit_cast<uint32_t>(kLastPlaces));
    int32_t code = u < static_cast<uint32_t>(128 - F.bias) << 23 ? small : normal;
    const int32_t beyond = F.special == NarrowFormat::none   ? F.largest()
                           : F.special == NarrowFormat::ieee ? F.infinity()
                                                             : F.nan(false);
    code = code > F.largest() ? beyond : code;
    const auto sign = static_cast<int32_t>(bits >> (31 - F.exponent_bits - kFraction)) & F.sign();
    const bool drops_sign = F.special == NarrowFormat::sign_nan && code == 0;
    code = drops_sign ? 0 : code | sign;
    const int32_t nan = F.nan(false) | (F.special == NarrowFormat::none ? 0 : sign);
    return static_cast<uint8_t>(u > uint32_t{kInfinity} ? nan : code);
  }
};

// Powers of two from 2^-127, no sign, no zero.
struct ReadScale {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V codes) {
    const V least = hn::Set(d, 0x00400000), zero = hn::Zero(d);
    const V bits = hn::IfThenElse(hn::Eq(codes, zero), least, hn::ShiftLeft<23>(codes));
    return hn::IfThenElse(hn::Eq(codes, hn::Set(d, 0xff)), hn::Set(d, kNan), bits);
  }
};
struct RoundScale {
  static uint8_t apply(float value) {
    constexpr uint32_t kLeast = 0x00600000u;  // halfway between the two smallest
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t exponent = u >> 23;
    const uint32_t up = exponent == 0
                            ? (u > kLeast ? 1u : 0u)
                            : ((u & 0x007fffffu) + (exponent & 1) > 0x00400000u ? 1u : 0u);
    const bool is_zero = u << 1 == 0;
    const uint32_t code = is_zero ? 0 : exponent + up;
    return static_cast<uint8_t>(u >= uint32_t{kInfinity} && !is_zero ? 0xffu : code);
  }
};

// Integers of so many bits, which are the low ones of what is stored.
template <class T, int kBits, bool kSigned>
struct ReadInteger {
  static int32_t apply(T x) {
    const auto u = static_cast<uint32_t>(x) << (32 - kBits);
    return kSigned ? static_cast<int32_t>(u) >> (32 - kBits)
                   : static_cast<int32_t>(u >> (32 - kBits));
  }
};
template <class T, int kBits>
struct StoreInteger {
  static T apply(int32_t x) { return static_cast<T>(x & ((1 << kBits) - 1)); }
};

template <size_t kRow>
LoopFunction find_float(DType narrow, bool reads) {
  if constexpr (kRow < kNarrowFormats.size()) {
    constexpr NarrowFormat kFormat = kNarrowFormats[kRow].format;
    if (narrow != kNarrowFormats[kRow].dtype) return find_float<kRow + 1>(narrow, reads);
    return reads ? read_codes<ReadFloat<kFormat>> : unary_loop<uint8_t, float, RoundFloat<kFormat>>;
  } else {
    if (narrow != DType::f8e8m0fnu) return nullptr;
    return reads ? read_codes<ReadScale> : unary_loop<uint8_t, float, RoundScale>;
  }
}

template <class T, int kBits, bool kSigned>
LoopFunction integer_loop(bool reads) {
  return reads ? unary_loop<int32_t, T, ReadInteger<T, kBits, kSigned>>
               : unary_loop<T, int32_t, StoreInteger<T, kBits>>;
}

LoopFunction find_integer(DType narrow, bool reads) {
  switch (narrow) {
    case DType::s1:
      return integer_loop<uint8_t, 1, true>(reads);
    case DType::s2:
      return integer_loop<uint8_t, 2, true>(reads);
    case DType::s4:
      return integer_loop<uint8_t, 4, true>(reads);
    case DType::s8:
      return integer_loop<uint8_t, 8, true>(reads);
    case DType::s16:
      return integer_loop<uint16_t, 16, true>(reads);
    case DType::u1:
      return integer_loop<uint8_t, 1, false>(reads);
    case DType::u2:
      return integer_loop<uint8_t, 2, false>(reads);
    case DType::u4:
      return integer_loop<uint8_t, 4, false>(reads);
    case DType::u8:
      return integer_loop<uint8_t, 8, false>(reads);
    default:
      return integer_loop<uint16_t, 16, false>(reads);
  }
}

struct Same {
  template <class T>
  static T apply(T x) {
    return x;
  }
};

// Toward zero, with the last bit set where something was cut off.
struct Shorten {
  template <class T>
  static float apply(T x) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {  // to the digits of a double
      constexpr T kExact = T{1} << 53, kCut = 0x7ff;
      const bool is_low = std::is_signed_v<T> && x < T(0) - kExact;
      if ((x > kExact || is_low) && (x & kCut) != 0) x = (x | (kCut + 1)) & ~kCut;
    }
    const auto value = static_cast<double>(x);
    const auto nearest = static_cast<float>(value);
    const auto back = static_cast<double>(nearest);
    auto bits = std::bit_cast<uint32_t>(nearest);
    if (back == value || !std::isfinite(back)) return nearest;
    if (std::fabs(back) > std::fabs(value)) --bits;
    return std::bit_cast<float>(bits | 1u);
  }
};

}  // namespace
LoopFunction find_narrow_loop(LoopOp op, DType input, DType result) {
  if (op == LoopOp::copy) {
    return dtype_size(input) == 1 ? unary_loop<uint8_t, uint8_t, Same>
                                  : unary_loop<uint16_t, uint16_t, Same>;
  }
  if (op != LoopOp::convert) return nullptr;
  if (result == DType::f32) return find_float<0>(input, true);
  if (input == DType::f32) return find_float<0>(result, false);
  if (result == DType::s32) return find_integer(input, true);
  return input == DType::s32 ? find_integer(result, false) : nullptr;
}
LoopFunction find_short_loop(DType input) {
  switch (input) {
    case DType::s32:
      return unary_loop<float, int32_t, Shorten>;
    case DType::u32:
      return unary_loop<float, uint32_t, Shorten>;
    case DType::s64:
      return unary_loop<float, int64_t, Shorten>;
    case DType::u64:
      return unary_loop<float, uint64_t, Shorten>;
    case DType::f64:
      return unary_loop<float, double, Shorten>;
    default:
      return nullptr;
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_narrow_loop);
HWY_EXPORT(find_short_loop);
LoopFunction narrow_loop(LoopOp op, DType input, DType result) {
  return HWY_DYNAMIC_DISPATCH(find_narrow_loop)(op, input, result);
}
LoopFunction short_loop(DType input) { return HWY_DYNAMIC_DISPATCH(find_short_loop)(input); }
}  // namespace gspmd
#endif
