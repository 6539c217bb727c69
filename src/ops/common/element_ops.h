#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "gspmd/ir/op.h"
#include "ops/common/numeric.h"

namespace gspmd {

// What elementwise ops do with elements, in the type that they compute in (ComputeType): one
// definition for kernels on whole arrays and for scalar programs. Functions that are computed in
// double are a table (ops/elementwise/functions.cpp).

// Whether op kOp is defined below on elements of T.
template <Opcode kOp, class T>
constexpr bool has_element_op() {
  constexpr bool is_number = !std::is_same_v<T, bool>;
  switch (kOp) {
    case Opcode::add:
    case Opcode::multiply:
    case Opcode::maximum:
    case Opcode::minimum:
      return true;
    case Opcode::negate:
    case Opcode::subtract:
    case Opcode::divide:
      return is_number;
    case Opcode::abs:
    case Opcode::sign:
    case Opcode::remainder:
      return is_number && !is_complex_v<T>;
    case Opcode::not_:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
      return std::is_integral_v<T>;
    case Opcode::power:
    case Opcode::popcnt:
    case Opcode::count_leading_zeros:
    case Opcode::mulhi:
    case Opcode::shift_left:
    case Opcode::shift_right_arithmetic:
    case Opcode::shift_right_logical:
      return is_number && std::is_integral_v<T>;
    default:
      return false;
  }
}

template <class T>
T negate_element(T x) {
  if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
    return -x;
  else
    return static_cast<T>(uint64_t(0) - static_cast<uint64_t>(x));
}

template <class T>
T sign_of_element(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x) || x == T(0)) return x;
  }
  return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : T(0);
}

template <Opcode kOp, class T>
T unary_element(T x) {
  if constexpr (kOp == Opcode::negate) return negate_element(x);
  if constexpr (kOp == Opcode::sign) return sign_of_element(x);
  if constexpr (kOp == Opcode::abs && std::is_floating_point_v<T>) return std::fabs(x);
  if constexpr (kOp == Opcode::abs && std::is_integral_v<T>)
    return x < T(0) ? negate_element(x) : x;  // the lowest integer stays
  if constexpr (kOp == Opcode::not_ && std::is_same_v<T, bool>) return !x;
  if constexpr (kOp == Opcode::not_ && !std::is_same_v<T, bool>) return static_cast<T>(~x);
  // In the width of the type.
  if constexpr (kOp == Opcode::popcnt)
    return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
  if constexpr (kOp == Opcode::count_leading_zeros)
    return static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(x)));
}

template <class T>
T subtract_elements(T a, T b) {
  if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// Integers: x / 0 has all bits set, lowest / -1 is lowest.
template <class T>
T divide_elements(T a, T b) {
  if constexpr (std::is_floating_point_v<T> || is_complex_v<T>) {
    return a / b;
  } else {
    if (b == T(0)) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return negate_element(a);
    return static_cast<T>(a / b);
  }
}

// The sign of the dividend. Integers: x % 0 is x, lowest % -1 is 0.
template <class T>
T remainder_of_elements(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == T(0)) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return T(0);
    return static_cast<T>(a % b);
  }
}

// Of integers, by squaring, wrapping; a negative exponent gives the truncated 1 / a^-b.
template <class T>
T power_of_integers(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
  T result = T(1);
  for (; b != T(0); b = static_cast<T>(b >> 1)) {
    if (b & 1) result = multiply_elements(result, a);
    a = multiply_elements(a, a);
  }
  return result;
}

// The bits of the product that do not fit into T.
template <class T>
T upper_half_of_product(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>((static_cast<Wide>(a) * b) >> (8 * sizeof(T)));
}

// Shifts by a negative amount or by the width and more: all bits leave (the sign stays in an
// arithmetic shift).
template <Opcode kOp, class T>
T shifted_element(T a, T b) {
  const bool out = static_cast<std::make_unsigned_t<T>>(b) >= sizeof(T) * 8;
  if constexpr (kOp == Opcode::shift_right_arithmetic) {
    const auto value = static_cast<std::make_signed_t<T>>(a);
    return static_cast<T>(out ? (value < 0 ? -1 : 0) : value >> b);
  }
  if (out) return T(0);
  if constexpr (kOp == Opcode::shift_left) return static_cast<T>(static_cast<uint64_t>(a) << b);
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) >> b);
}

template <Opcode kOp, class T>
T binary_element(T a, T b) {
  if constexpr (kOp == Opcode::add) return add_elements(a, b);
  if constexpr (kOp == Opcode::subtract) return subtract_elements(a, b);
  if constexpr (kOp == Opcode::multiply) return multiply_elements(a, b);
  if constexpr (kOp == Opcode::mulhi) return upper_half_of_product(a, b);
  if constexpr (kOp == Opcode::divide) return divide_elements(a, b);
  if constexpr (kOp == Opcode::remainder) return remainder_of_elements(a, b);
  if constexpr (kOp == Opcode::power) return power_of_integers(a, b);
  if constexpr (kOp == Opcode::maximum) return maximum(a, b);
  if constexpr (kOp == Opcode::minimum) return minimum(a, b);
  if constexpr (kOp == Opcode::and_) return static_cast<T>(a & b);
  if constexpr (kOp == Opcode::or_) return static_cast<T>(a | b);
  if constexpr (kOp == Opcode::xor_) return static_cast<T>(a ^ b);
  if constexpr (kOp == Opcode::shift_left || kOp == Opcode::shift_right_arithmetic ||
                kOp == Opcode::shift_right_logical)
    return shifted_element<kOp>(a, b);
}

// Bits of a float as an integer that orders -NaN < -inf < ... < -0 < +0 < ... < NaN.
template <class T>
auto total_order(T value) {
  using U = std::conditional_t<sizeof(T) == 2, int16_t,
                               std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  U bits;
  std::memcpy(&bits, &value, sizeof(T));
  return bits < 0 ? static_cast<U>(bits ^ std::numeric_limits<U>::max()) : bits;
}

template <class T>
bool compare_elements(Direction direction, T a, T b) {
  switch (direction) {
    case Direction::eq:
      return a == b;
    case Direction::ne:
      return a != b;
    case Direction::ge:
      return a >= b;
    case Direction::gt:
      return a > b;
    case Direction::le:
      return a <= b;
    case Direction::lt:
      return a < b;
  }
  return false;
}

}  // namespace gspmd
