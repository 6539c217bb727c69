#include "base/narrow.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <limits>

#include "gspmd/base/array.h"

namespace gspmd {
namespace {

constexpr DType kFloats[] = {DType::f4e2m1fn,   DType::f6e2m3fn,   DType::f6e3m2fn,
                             DType::f8e3m4,     DType::f8e4m3,     DType::f8e4m3b11fnuz,
                             DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                             DType::f8e5m2fnuz, DType::f8e8m0fnu};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int codes(DType dtype) { return 1 << narrow_bits(dtype); }
double value(DType dtype, int bits) { return narrow_to_double(dtype, uint8_t(bits)); }
int code(DType dtype, double x) { return narrow_from_double(dtype, x); }

}  // namespace

TEST_CASE("narrow: f8e5m2 is the upper half of a 16-bit float", "[narrow]") {
  for (int bits = 0; bits < 256; ++bits) {
    const double half = half_to_float(uint16_t(bits << 8));
    const double narrow = value(DType::f8e5m2, bits);
    CHECK((half == narrow || (std::isnan(half) && std::isnan(narrow))));
    CHECK(std::signbit(narrow) == (bits >= 128));
  }
}

TEST_CASE("narrow: every number of a float format is its own nearest", "[narrow]") {
  for (const DType dtype : kFloats)
    for (int bits = 0; bits < codes(dtype); ++bits) {
      const double x = value(dtype, bits);
      INFO(dtype_name(dtype) << " " << bits << " " << x);
      if (std::isnan(x))
        CHECK(std::isnan(value(dtype, code(dtype, x))));
      else
        CHECK(code(dtype, x) == bits);
    }
}

TEST_CASE("narrow: between two numbers the nearer one is taken, halfway the even one", "[narrow]") {
  for (const DType dtype : kFloats)
    for (int bits = 0; bits + 1 < codes(dtype) / (dtype == DType::f8e8m0fnu ? 1 : 2); ++bits) {
      const double low = value(dtype, bits), high = value(dtype, bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      INFO(dtype_name(dtype) << " between " << low << " and " << high);
      const double middle = (low + high) / 2;
      CHECK(code(dtype, middle) == bits + bits % 2);
      CHECK(code(dtype, std::nextafter(middle, 0)) == bits);
      CHECK(code(dtype, std::nextafter(middle, high)) == bits + 1);
    }
}

TEST_CASE("narrow: what lies beyond the largest number follows the format", "[narrow]") {
  struct Row {
    DType dtype;
    double largest, beyond;
  };
  const Row rows[] = {
      {DType::f4e2m1fn, 6, 6},           {DType::f6e2m3fn, 7.5, 7.5},
      {DType::f6e3m2fn, 28, 28},         {DType::f8e3m4, 15.5, kInfinity},
      {DType::f8e4m3, 240, kInfinity},   {DType::f8e4m3b11fnuz, 30, kNan},
      {DType::f8e4m3fn, 448, kNan},      {DType::f8e4m3fnuz, 240, kNan},
      {DType::f8e5m2, 57344, kInfinity}, {DType::f8e5m2fnuz, 57344, kNan},
      {DType::f8e8m0fnu, 0x1p127, kNan},
  };
  for (const Row& row : rows) {
    INFO(dtype_name(row.dtype));
    CHECK(value(row.dtype, code(row.dtype, row.largest)) == row.largest);
    for (const double x : {1e30 * row.largest, kInfinity}) {
      const double y = value(row.dtype, code(row.dtype, x));
      CHECK((y == row.beyond || (std::isnan(y) && std::isnan(row.beyond))));
    }
  }
  CHECK(value(DType::f8e4m3fn, code(DType::f8e4m3fn, 464)) == 448);  // halfway, 448 is even
  CHECK(std::isnan(value(DType::f8e4m3fn, code(DType::f8e4m3fn, 464.1))));
  CHECK(code(DType::f8e4m3fnuz, -0.0) == 0);  // its code means NaN
  CHECK(code(DType::f8e5m2, -0.0) == 128);
}

TEST_CASE("narrow: small integers keep their low bits", "[narrow]") {
  CHECK(value(DType::s4, code(DType::s4, -8)) == -8);
  CHECK(value(DType::s4, code(DType::s4, 8)) == -8);
  CHECK(value(DType::s4, code(DType::s4, -9)) == 7);
  CHECK(value(DType::u4, code(DType::u4, 17)) == 1);
  CHECK(value(DType::u2, code(DType::u2, -1)) == 3);
  CHECK(value(DType::s2, code(DType::s2, 2)) == -2);
  CHECK(value(DType::s1, code(DType::s1, 1)) == -1);
  CHECK(value(DType::u1, code(DType::u1, 3)) == 1);
  CHECK(value(DType::s4, code(DType::s4, 1e300)) == 0);
  CHECK(value(DType::u4, code(DType::u4, kNan)) == 0);
}

TEST_CASE("arrays of complex and narrow numbers are read and written by element", "[array]") {
  Array c(DType::c64, {2});
  c.set(1, 2.5);
  CHECK(c.at(1) == 2.5);
  CHECK(c.data<std::complex<float>>()[1] == std::complex<float>(2.5f, 0));
  Array n(DType::f8e4m3fn, {3});
  n.set(2, 3.3);
  CHECK(n.at(2) == 3.25);
  Array i(DType::s8, {2});
  i.set(0, 1000);
  i.set(1, kNan);
  CHECK(i.at(0) == 127);
  CHECK(i.at(1) == 0);
  Array other = c.clone();
  CHECK(bitwise_equal(c, other));
  other.data<std::complex<float>>()[0] = {0, 1};
  CHECK_FALSE(bitwise_equal(c, other));
  CHECK(bitwise_equal(Array(DType::token, {}), Array(DType::token, {})));
}

}  // namespace gspmd
