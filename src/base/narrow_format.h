#pragma once

#include <array>

#include "gspmd/base/dtype.h"

namespace gspmd {

// How a narrow float lies in its bits: sign, exponent, fraction.
struct NarrowFormat {
  // What the codes past the largest finite number mean.
  enum Special : uint8_t {
    ieee,      // the highest exponent holds infinity and NaNs
    one_nan,   // all bits set (sign apart) is NaN, no infinity
    sign_nan,  // the code of -0 is NaN, neither infinity nor -0
    none,      // every code is a number
  };
  int exponent_bits, mantissa_bits, bias;
  Special special;

  constexpr int sign() const { return 1 << (exponent_bits + mantissa_bits); }  // its bit
  constexpr int infinity() const {  // its code; 0: there is none
    return special == ieee ? sign() - (1 << mantissa_bits) : 0;
  }
  constexpr int largest() const {  // the code of the largest finite number
    if (special == ieee) return infinity() - 1;
    return special == one_nan ? sign() - 2 : sign() - 1;
  }
  constexpr int nan(bool negative) const {  // the code of a NaN
    switch (special) {
      case ieee:  // quiet: the highest fraction bit
        return (negative ? sign() : 0) | infinity() | (1 << (mantissa_bits - 1));
      case one_nan:
        return (negative ? sign() : 0) | (sign() - 1);
      default:
        return sign();
    }
  }
};

// f8e8m0fnu, which has neither sign nor fraction, is none of these.
struct NarrowFormatRow {
  DType dtype;
  NarrowFormat format;
};
inline constexpr std::array<NarrowFormatRow, 10> kNarrowFormats{{
    {DType::f4e2m1fn, {2, 1, 1, NarrowFormat::none}},
    {DType::f6e2m3fn, {2, 3, 1, NarrowFormat::none}},
    {DType::f6e3m2fn, {3, 2, 3, NarrowFormat::none}},
    {DType::f8e3m4, {3, 4, 3, NarrowFormat::ieee}},
    {DType::f8e4m3, {4, 3, 7, NarrowFormat::ieee}},
    {DType::f8e4m3b11fnuz, {4, 3, 11, NarrowFormat::sign_nan}},
    {DType::f8e4m3fn, {4, 3, 7, NarrowFormat::one_nan}},
    {DType::f8e4m3fnuz, {4, 3, 8, NarrowFormat::sign_nan}},
    {DType::f8e5m2, {5, 2, 15, NarrowFormat::ieee}},
    {DType::f8e5m2fnuz, {5, 2, 16, NarrowFormat::sign_nan}},
}};

}  // namespace gspmd
