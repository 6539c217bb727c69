#include "base/narrow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

// What the codes past the largest finite number mean.
enum class Special : uint8_t {
  ieee,      // the highest exponent holds infinity and NaNs
  one_nan,   // all bits set (sign apart) is NaN, no infinity
  sign_nan,  // the code of -0 is NaN, neither infinity nor -0
  none,      // every code is a number
};

struct Format {
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
  Special special;
};

constexpr std::array<Format, 10> kFormats{{
    {DType::f4e2m1fn, 2, 1, 1, Special::none},
    {DType::f6e2m3fn, 2, 3, 1, Special::none},
    {DType::f6e3m2fn, 3, 2, 3, Special::none},
    {DType::f8e3m4, 3, 4, 3, Special::ieee},
    {DType::f8e4m3, 4, 3, 7, Special::ieee},
    {DType::f8e4m3b11fnuz, 4, 3, 11, Special::sign_nan},
    {DType::f8e4m3fn, 4, 3, 7, Special::one_nan},
    {DType::f8e4m3fnuz, 4, 3, 8, Special::sign_nan},
    {DType::f8e5m2, 5, 2, 15, Special::ieee},
    {DType::f8e5m2fnuz, 5, 2, 16, Special::sign_nan},
}};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Format& format_of(DType dtype) {
  for (const Format& format : kFormats)
    if (format.dtype == dtype) return format;
  internal_error("narrow: {} is no narrow float", dtype_name(dtype));
}

struct Codes {
  int sign, infinity, largest;  // the sign bit, the code of infinity (0: none), the largest finite
};

Codes codes_of(const Format& f) {
  const int sign = 1 << (f.exponent_bits + f.mantissa_bits);
  const int infinity = sign - (1 << f.mantissa_bits);
  switch (f.special) {
    case Special::ieee:
      return {sign, infinity, infinity - 1};
    case Special::one_nan:
      return {sign, 0, sign - 2};
    default:
      return {sign, 0, sign - 1};
  }
}

double decode(const Format& f, int bits) {
  const Codes codes = codes_of(f);
  const int magnitude = bits & (codes.sign - 1);
  const bool negative = (bits & codes.sign) != 0;
  if (f.special == Special::sign_nan && negative && magnitude == 0) return kNan;
  if (magnitude > codes.largest) {
    const double special = magnitude == codes.infinity ? INFINITY : kNan;
    return negative ? -special : special;
  }
  const int exponent = magnitude >> f.mantissa_bits;
  const int fraction = magnitude & ((1 << f.mantissa_bits) - 1);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - f.bias - f.mantissa_bits)
                                     : std::ldexp(fraction + (1 << f.mantissa_bits),
                                                  exponent - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

int nan_code(const Format& f, bool negative) {
  const Codes codes = codes_of(f);
  switch (f.special) {
    case Special::ieee:  // quiet: the highest fraction bit
      return (negative ? codes.sign : 0) | codes.infinity | (1 << (f.mantissa_bits - 1));
    case Special::one_nan:
      return (negative ? codes.sign : 0) | (codes.sign - 1);
    default:
      return codes.sign;
  }
}

int encode(const Format& f, double value) {
  const Codes codes = codes_of(f);
  const bool negative = std::signbit(value);
  if (std::isnan(value)) return nan_code(f, negative);
  const int sign = negative ? codes.sign : 0;
  const double magnitude = std::fabs(value);
  int code = codes.largest + 1;
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
  if (code > codes.largest) {
    if (f.special == Special::none) return sign | codes.largest;
    return f.special == Special::ieee ? sign | codes.infinity : nan_code(f, negative);
  }
  return code == 0 && f.special == Special::sign_nan ? 0 : sign | code;
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
