#include "gspmd/base/dtype.h"

#include <array>
#include <bit>
#include <cmath>

namespace gspmd {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int64_t size;
};

constexpr std::array<Row, 34> kTable{{
    {DType::pred, "pred", 1},
    {DType::s8, "s8", 1},
    {DType::s16, "s16", 2},
    {DType::s32, "s32", 4},
    {DType::s64, "s64", 8},
    {DType::u8, "u8", 1},
    {DType::u16, "u16", 2},
    {DType::u32, "u32", 4},
    {DType::u64, "u64", 8},
    {DType::f16, "f16", 2},
    {DType::bf16, "bf16", 2},
    {DType::f32, "f32", 4},
    {DType::f64, "f64", 8},
    {DType::c64, "c64", 8},
    {DType::c128, "c128", 16},
    {DType::token, "token", 0},
    {DType::s1, "s1", 1},
    {DType::s2, "s2", 1},
    {DType::s4, "s4", 1},
    {DType::u1, "u1", 1},
    {DType::u2, "u2", 1},
    {DType::u4, "u4", 1},
    {DType::f4e2m1fn, "f4e2m1fn", 1},
    {DType::f6e2m3fn, "f6e2m3fn", 1},
    {DType::f6e3m2fn, "f6e3m2fn", 1},
    {DType::f8e3m4, "f8e3m4", 1},
    {DType::f8e4m3, "f8e4m3", 1},
    {DType::f8e4m3b11fnuz, "f8e4m3b11fnuz", 1},
    {DType::f8e4m3fn, "f8e4m3fn", 1},
    {DType::f8e4m3fnuz, "f8e4m3fnuz", 1},
    {DType::f8e5m2, "f8e5m2", 1},
    {DType::f8e5m2fnuz, "f8e5m2fnuz", 1},
    {DType::f8e8m0fnu, "f8e8m0fnu", 1},
    {DType::opaque, "opaque", 0},
}};

const Row& row(DType dtype) { return kTable[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kTable)
    if (r.name == name) return r.dtype;
  return std::nullopt;
}

int64_t dtype_size(DType dtype) { return row(dtype).size; }
namespace {
bool between(DType dtype, DType first, DType last) { return dtype >= first && dtype <= last; }
}  // namespace

bool is_floating(DType dtype) {
  return between(dtype, DType::f16, DType::f64) ||
         between(dtype, DType::f4e2m1fn, DType::f8e8m0fnu);
}
bool is_signed_integer(DType dtype) {
  return between(dtype, DType::s8, DType::s64) || between(dtype, DType::s1, DType::s4);
}
bool is_unsigned_integer(DType dtype) {
  return between(dtype, DType::u8, DType::u64) || between(dtype, DType::u1, DType::u4);
}
bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }
bool is_narrow(DType dtype) { return between(dtype, DType::s1, DType::f8e8m0fnu); }
bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }
bool is_computable(DType dtype) { return between(dtype, DType::pred, DType::f64); }

float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  // As processors do, NaN keeps its sign and payload, and becomes a quiet one.
  if (exponent == 31 && mantissa != 0)
    return std::bit_cast<float>((bits & 0x8000u) << 16 | 0x7fc00000u | uint32_t(mantissa) << 13);
  if (exponent == 31) return sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(float(mantissa), -24);
  return sign * std::ldexp(float(mantissa + 1024), exponent - 25);
}

uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00 | uint16_t(std::bit_cast<uint32_t>(value) >> 13 & 0x1ff);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0f, -14))
    return sign | uint16_t(std::nearbyint(std::ldexp(magnitude, 24)));
  int exponent;
  const float fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  const auto mantissa = uint32_t(std::nearbyint(std::ldexp(fraction, 11)));
  // A mantissa rounded up to 2048 carries into the exponent by plain addition.
  return sign | uint16_t((uint32_t(exponent + 14) << 10) + (mantissa - 1024));
}

}  // namespace gspmd
