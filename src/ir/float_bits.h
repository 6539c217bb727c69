#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "gspmd/base/dtype.h"

namespace gspmd {

// Where sign, exponent and mantissa stand in a float.
struct FloatBits {
  int width = 32, mantissa = 23;
  uint64_t nan(bool negative, uint64_t payload) const {
    const uint64_t exponent = (uint64_t{1} << (width - 1 - mantissa)) - 1;
    return (uint64_t{negative} << (width - 1)) | (exponent << mantissa) | payload;
  }
  uint64_t payload(uint64_t bits) const { return bits & ((uint64_t{1} << mantissa) - 1); }
  // Of the NaN that is written without a payload.
  uint64_t quiet() const { return uint64_t{1} << (mantissa - 1); }
};

// Of f16, bf16, f32 and f64.
inline std::optional<FloatBits> float_bits(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return FloatBits{16, 10};
    case DType::bf16:
      return FloatBits{16, 7};
    case DType::f32:
      return FloatBits{32, 23};
    case DType::f64:
      return FloatBits{64, 52};
    default:
      return std::nullopt;
  }
}

// The float next to `value` whose last bit is set unless it is exact: rounding that to fewer bits
// gives what rounding `value` itself would give.
inline float round_to_odd(double value) {
  if (std::isnan(value)) return std::copysign(std::nanf(""), std::signbit(value) ? -1.0f : 1.0f);
  if (std::fabs(value) > 3.4e38) return std::copysign(INFINITY, value > 0 ? 1.0f : -1.0f);
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || (std::bit_cast<uint32_t>(nearest) & 1u))
    return nearest;
  return std::nextafter(nearest, value > static_cast<double>(nearest) ? INFINITY : -INFINITY);
}

}  // namespace gspmd
