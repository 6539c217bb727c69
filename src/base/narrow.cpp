#include "base/narrow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/narrow_format.h"
#include "gspmd/base/error.h"

namespace gspmd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const NarrowFormat& format_of(DType dtype) {
  for (const NarrowFormatRow& row : kNarrowFormats)
    if (row.dtype == dtype) return row.format;
  internal_error("narrow: {} is no narrow float", dtype_name(dtype));
}

double decode(const NarrowFormat& f, int bits) {
  const int magnitude = bits & (f.sign() - 1);
  const bool negative = (bits & f.sign()) != 0;
  if (f.special == NarrowFormat::sign_nan && negative && magnitude == 0) return kNan;
  if (magnitude > f.largest()) {
    const double special = magnitude == f.infinity() ? INFINITY : kNan;
    return negative ? -special : special;
  }
  const int exponent = magnitude >> f.mantissa_bits;
  const int fraction = magnitude & ((1 << f.mantissa_bits) - 1);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - f.bias - f.mantissa_bits)
                                     : std::ldexp(fraction + (1 << f.mantissa_bits),
                                                  exponent - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

int encode(const NarrowFormat& f, double value) {
  const bool negative = std::signbit(value);
  if (std::isnan(value)) return f.nan(negative);
  const int sign = negative ? f.sign() : 0;
  const double magnitude = std::fabs(value);
  int code = f.largest() + 1;
  if (magnitude < std::ldexp(1.0, 64)) {
    const int lowest = 1 - f.bias;
    const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
    if (exponent + f.bias < 1 << f.exponent_bits) {
      // A fraction rounded up past its bits carries into the exponent by plain addition.
      const auto scaled =
          static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent)));
      code = ((exponent + f.bias - 1) << f.mantissa_bits) + scaled;
    }
  }
  if (code > f.largest()) {
    if (f.special == NarrowFormat::none) return sign | f.largest();
    return f.special == NarrowFormat::ieee ? sign | f.infinity() : f.nan(negative);
  }
  return code == 0 && f.special == NarrowFormat::sign_nan ? 0 : sign | code;
}

// Powers of two from 2^-127, no sign, no zero.
uint8_t encode_scale(double value) {
  if (!(value >= 0) || std::isinf(value)) return 0xff;
  if (value <= std::ldexp(1.0, -127)) return 0;
  const int exponent = std::ilogb(value);
  // Halfway lies at 1.5 times the power; of two neighbours the even code wins.
  const double excess = std::ldexp(value, -exponent) - 1.5;
  const int code = exponent + 127;
  const int rounded = excess > 0 || (excess == 0 && code % 2 != 0) ? code + 1 : code;
  return static_cast<uint8_t>(std::min(rounded, 0xff));
}

}  // namespace

int narrow_bits(DType dtype) {
  switch (dtype) {
    case DType::s1:
    case DType::u1:
      return 1;
    case DType::s2:
    case DType::u2:
      return 2;
    case DType::s4:
    case DType::u4:
    case DType::f4e2m1fn:
      return 4;
    case DType::f6e2m3fn:
    case DType::f6e3m2fn:
      return 6;
    default:
      return 8;
  }
}

double narrow_to_double(DType dtype, uint8_t bits) {
  if (is_integer(dtype)) {
    const int width = narrow_bits(dtype);
    const int value = bits & ((1 << width) - 1);
    return is_signed_integer(dtype) && value >> (width - 1) ? value - (1 << width) : value;
  }
  if (dtype == DType::f8e8m0fnu) return bits == 0xff ? kNan : std::ldexp(1.0, int(bits) - 127);
  return decode(format_of(dtype), bits);
}

uint8_t narrow_from_double(DType dtype, double value) {
  if (is_integer(dtype)) {
    const int modulus = 1 << narrow_bits(dtype);
    if (!std::isfinite(value)) return 0;
    const auto rest = static_cast<int>(std::fmod(std::trunc(value), modulus));
    return static_cast<uint8_t>(rest < 0 ? rest + modulus : rest);
  }
  if (dtype == DType::f8e8m0fnu) return encode_scale(value);
  return static_cast<uint8_t>(encode(format_of(dtype), value));
}

}  // namespace gspmd
