#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "gspmd/base/dtype.h"

namespace gspmd {

// Scalar arithmetic with HLO's corner cases, on the C++ types that visit_dtype gives.

template <class T>
inline constexpr bool is_float16_v = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool is_float_v = std::is_floating_point_v<T> || is_float16_v<T>;

template <class T>
inline constexpr bool is_complex_v =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// visit_dtype, and complex numbers as std::complex. Narrow types are refused by the caller before:
// their values are computed in a wider type (ops/widen.h).
template <class F>
decltype(auto) visit_number(DType dtype, F&& f) {
  if (dtype == DType::c64) return f(TypeTag<std::complex<float>>{});
  if (dtype == DType::c128) return f(TypeTag<std::complex<double>>{});
  return visit_dtype(dtype, std::forward<F>(f));
}

// The type that an op computes in: 16-bit floats in float, complex numbers in double, rounded once
// per op.
template <class T>
using ComputeType =
    std::conditional_t<is_float16_v<T>, float,
                       std::conditional_t<is_complex_v<T>, std::complex<double>, T>>;

// A double from which rounding to a shorter format gives what rounding `value` itself gives: where
// it has more digits than doubles, those that go leave a mark on the last.
template <class T>
double to_double_for_rounding(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    constexpr T kExact = T{1} << 53, kCut = 0x7ff;
    const bool is_low = std::is_signed_v<T> && value < T(0) - kExact;
    if ((value > kExact || is_low) && (value & kCut) != 0) value = (value | (kCut + 1)) & ~kCut;
  }
  return static_cast<double>(value);
}

// A float from which rounding to a shorter format gives what rounding `value` itself gives: toward
// zero, with the last bit set where something was cut off.
inline float to_float_for_rounding(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || !std::isfinite(back)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// Values of all types as convert does: saturating to integers with NaN -> 0, wrapping between
// integers, "is not zero" to pred; of a complex number, to all but complex types, the real part
// alone.
template <class To, class From>
To convert_element(From from) {
  if constexpr (is_complex_v<To> && is_complex_v<From>) {
    using Part = typename To::value_type;
    return To(static_cast<Part>(from.real()), static_cast<Part>(from.imag()));
  } else if constexpr (is_complex_v<To>) {
    return To(convert_element<typename To::value_type>(from));
  } else if constexpr (is_complex_v<From>) {
    return convert_element<To>(from.real());
  } else if constexpr (is_float16_v<From>) {
    return convert_element<To>(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From(0);
  } else if constexpr (is_float16_v<To> && sizeof(From) >= 4 && !std::is_same_v<From, float>) {
    return To(to_float_for_rounding(to_double_for_rounding(from)));
  } else if constexpr (is_float16_v<To>) {
    return To(static_cast<float>(from));
  } else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) {
    return static_cast<To>(from);
  } else {
    // 2^digits is a float exactly, the largest integer may not be.
    const From limit = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (std::isnan(from)) return To(0);
    if (from >= limit) return std::numeric_limits<To>::max();
    if (from <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(from);
  }
}

template <class T>
bool is_nan(std::complex<T> z) {
  return std::isnan(z.real()) || std::isnan(z.imag());
}

// Pairs (real, imag) in lexicographic order, numbers by value; of equal pairs -0 comes before +0.
template <class T>
bool lexicographic_less(std::complex<T> a, std::complex<T> b) {
  if (a.real() != b.real()) return a.real() < b.real();
  if (a.imag() != b.imag()) return a.imag() < b.imag();
  if (std::signbit(a.real()) != std::signbit(b.real())) return std::signbit(a.real());
  return std::signbit(a.imag()) && !std::signbit(b.imag());
}

// NaN where either is NaN, and -0 < +0, so that the order of a reduction does not matter. A complex
// number is NaN where a part is.
template <class T>
T maximum(T a, T b) {
  if constexpr (is_complex_v<T>) {
    if (is_nan(a) || is_nan(b)) return is_nan(a) ? a : b;
    return lexicographic_less(a, b) ? b : a;
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
      if (a == b) return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
  }
}

template <class T>
T minimum(T a, T b) {
  if constexpr (is_complex_v<T>) {
    if (is_nan(a) || is_nan(b)) return is_nan(a) ? a : b;
    return lexicographic_less(b, a) ? b : a;
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
      if (a == b) return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
  }
}

// Integers wrap around; of pred, add is "or" and multiply is "and".
template <class T>
T add_elements(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <class T>
T multiply_elements(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a && b;
  else if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else if constexpr (is_complex_v<T>)  // the plain formula: no recovery of infinities
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  else
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace gspmd
