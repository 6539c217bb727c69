#pragma once

// Element types, by HLO's names.

#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "gspmd/base/export.h"

namespace gspmd {

// HLO's element types, by HLO's names.
// clang-format off
enum class DType : uint8_t {
  pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128, token,
  // Narrow types: one byte of storage each, computed in a wider type and rounded back.
  s1, s2, s4, u1, u2, u4,
  f4e2m1fn, f6e2m3fn, f6e3m2fn, f8e3m4, f8e4m3, f8e4m3b11fnuz, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu,
  opaque,
};
// clang-format on

GSPMD_API std::string_view dtype_name(DType dtype);  // "f32"
// nullopt: no dtype has the name.
GSPMD_API std::optional<DType> dtype_from_name(std::string_view name);
GSPMD_API int64_t dtype_size(DType dtype);        // bytes per element; token: 0
GSPMD_API bool is_floating(DType dtype);          // f16 bf16 f32 f64 and the narrow ones
GSPMD_API bool is_integer(DType dtype);           // signed or unsigned, not pred
GSPMD_API bool is_narrow(DType dtype);            // s1 ... f8e8m0fnu
GSPMD_API bool is_signed_integer(DType dtype);    // s1 ... s64
GSPMD_API bool is_unsigned_integer(DType dtype);  // u1 ... u64
GSPMD_API bool is_complex(DType dtype);           // c64, c128

// 16-bit floats as storage with float arithmetic; conversion rounds to nearest even.
GSPMD_API float half_to_float(uint16_t bits);
GSPMD_API uint16_t float_to_half(float value);  // rounds to nearest even

// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct bfloat16 {
  uint16_t bits = 0;  // as stored
  bfloat16() = default;
  // Rounds to nearest even; NaN stays NaN.
  bfloat16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, 4);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? uint16_t((u >> 16) | 0x40u) : uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  // Exact.
  operator float() const {
    const uint32_t u = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &u, 4);
    return value;
  }
};

// IEEE's 16-bit float: 5 bits of exponent, 10 of fraction.
struct float16 {
  uint16_t bits = 0;  // as stored
  float16() = default;
  float16(float value) : bits(float_to_half(value)) {}    // rounds to nearest even
  operator float() const { return half_to_float(bits); }  // exact
};

// Names a C++ type as a value.
template <class T>
struct TypeTag {
  using type = T;  // the type named
};

// Calls `f(TypeTag<T>{})` with the C++ type that stores `dtype`; pred is `bool`. Complex and token
// types are refused by the caller before (see `is_computable`).
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
      // clang-format off
    case DType::pred: return f(TypeTag<bool>{});
    case DType::s8: return f(TypeTag<int8_t>{});
    case DType::s16: return f(TypeTag<int16_t>{});
    case DType::s32: return f(TypeTag<int32_t>{});
    case DType::s64: return f(TypeTag<int64_t>{});
    case DType::u8: return f(TypeTag<uint8_t>{});
    case DType::u16: return f(TypeTag<uint16_t>{});
    case DType::u32: return f(TypeTag<uint32_t>{});
    case DType::u64: return f(TypeTag<uint64_t>{});
    case DType::f16: return f(TypeTag<float16>{});
    case DType::bf16: return f(TypeTag<bfloat16>{});
    case DType::f64: return f(TypeTag<double>{});
    default: return f(TypeTag<float>{});
      // clang-format on
  }
}

// Whether `visit_dtype` serves values of this type: not complex and narrow numbers, tokens, opaque.
GSPMD_API bool is_computable(DType dtype);

// std::complex<float> and <double>, known by their members: <complex> itself brings in iostreams.
template <class T>
concept ComplexNumber = std::floating_point<typename T::value_type> &&
                            sizeof(T) == 2 * sizeof(typename T::value_type) &&
                        requires(const T& z) {
  { z.real() } -> std::same_as<typename T::value_type>;
  { z.imag() } -> std::same_as<typename T::value_type>;
};

// --- The element type that stores values of a C++ type
// clang-format off
template <class T> constexpr DType dtype_of();
template <ComplexNumber T> constexpr DType dtype_of() {
  return std::same_as<typename T::value_type, float> ? DType::c64 : DType::c128;
}
template <> constexpr DType dtype_of<bool>() { return DType::pred; }
template <> constexpr DType dtype_of<int8_t>() { return DType::s8; }
template <> constexpr DType dtype_of<int16_t>() { return DType::s16; }
template <> constexpr DType dtype_of<int32_t>() { return DType::s32; }
template <> constexpr DType dtype_of<int64_t>() { return DType::s64; }
template <> constexpr DType dtype_of<uint8_t>() { return DType::u8; }
template <> constexpr DType dtype_of<uint16_t>() { return DType::u16; }
template <> constexpr DType dtype_of<uint32_t>() { return DType::u32; }
template <> constexpr DType dtype_of<uint64_t>() { return DType::u64; }
template <> constexpr DType dtype_of<float16>() { return DType::f16; }
template <> constexpr DType dtype_of<bfloat16>() { return DType::bf16; }
template <> constexpr DType dtype_of<float>() { return DType::f32; }
template <> constexpr DType dtype_of<double>() { return DType::f64; }
// clang-format on

}  // namespace gspmd
