#include "gspmd/base/dtype.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace gspmd;

namespace {

// The finite value nearest to `value` among the 16-bit patterns below `infinity`, ties to the even
// pattern; by search, not by the arithmetic under test.
template <class ToFloat>
uint16_t nearest(double magnitude, uint16_t infinity, ToFloat to_float) {
  uint16_t low = 0;
  uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = uint16_t((low + high) / 2);
    (double(to_float(middle)) <= magnitude ? low : high) = middle;
  }
  const double below = to_float(low);
  // Beyond the largest finite value the next step of the same spacing would be infinity.
  const double above = high == infinity ? below + (below - double(to_float(uint16_t(low - 1))))
                                        : double(to_float(high));
  const double to_below = magnitude - below;
  const double to_above = above - magnitude;
  if (to_below != to_above) return to_below < to_above ? low : high;
  return low % 2 == 0 ? low : high;
}

float bfloat_value(uint16_t bits) {
  bfloat16 b;
  b.bits = bits;
  return b;
}

std::vector<float> interesting_floats() {
  std::vector<float> values{0.0f,
                            1.0f,
                            65504.0f,
                            65519.99f,
                            65520.0f,
                            65536.0f,
                            6.1035156e-5f,
                            6.097555e-5f,
                            5.9604645e-8f,
                            2.9802322e-8f,
                            2.9802326e-8f,
                            1e-10f,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min(),
                            3.3895314e38f,
                            3.3961776e38f};
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const float mantissa = 1.0f + float(random() % (1u << 23)) / float(1u << 23);
    values.push_back(std::ldexp(mantissa, int(random() % 60) - 30));
  }
  for (uint32_t bits = 0; bits < 0x7c00; bits += 7) {  // halfway between neighbours
    const float a = half_to_float(uint16_t(bits));
    values.push_back((a + half_to_float(uint16_t(bits + 1))) / 2);
  }
  return values;
}

}  // namespace

TEST_CASE("f16: every pattern survives the way through float", "[dtype]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(uint16_t(bits));
    // NaN becomes a quiet one, as by the processor's own conversion.
    const uint32_t expected = std::isnan(value) ? bits | 0x200 : bits;
    if (float_to_half(value) != expected) FAIL_CHECK("pattern " << bits);
  }
  CHECK(std::bit_cast<uint32_t>(half_to_float(0x7e00)) == 0x7fc00000);
  CHECK(std::bit_cast<uint32_t>(half_to_float(0xfd55)) == 0xffeaa000);
  CHECK(float_to_half(std::bit_cast<float>(0xff800001)) == 0xfe00);
  CHECK(half_to_float(0x3c00) == 1.0f);
  CHECK(half_to_float(0xc000) == -2.0f);
  CHECK(half_to_float(0x7bff) == 65504.0f);
  CHECK(half_to_float(0x0001) == std::ldexp(1.0f, -24));
  CHECK(std::isinf(half_to_float(0xfc00)));
  CHECK(std::signbit(half_to_float(0x8000)));
}

TEST_CASE("f16: floats round to the nearest, ties to even, large ones to infinity", "[dtype]") {
  for (const float value : interesting_floats()) {
    if (value > 1e6f) continue;
    const uint16_t expected = nearest(value, 0x7c00, half_to_float);
    if (float_to_half(value) != expected || float_to_half(-value) != (expected | 0x8000))
      FAIL_CHECK("value " << value);
  }
  CHECK(float_to_half(std::numeric_limits<float>::infinity()) == 0x7c00);
  CHECK(float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_half(-1e9f) == 0xfc00);
}

TEST_CASE("bf16: floats round to the nearest, ties to even", "[dtype]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bfloat_value(uint16_t(bits));
    if (std::isnan(value))
      CHECK(std::isnan(float(bfloat16(value))));
    else if (bfloat16(value).bits != bits)
      FAIL_CHECK("pattern " << bits);
  }
  for (const float value : interesting_floats()) {
    const uint16_t expected = nearest(value, 0x7f80, bfloat_value);
    if (bfloat16(value).bits != expected || bfloat16(-value).bits != (expected | 0x8000))
      FAIL_CHECK("value " << value);
  }
  CHECK(bfloat16(std::numeric_limits<float>::infinity()).bits == 0x7f80);
}

TEST_CASE("dtypes: names, sizes and classes are those of HLO", "[dtype]") {
  int count = 0;
  for (int i = 0; i <= int(DType::token); ++i, ++count) {
    const auto dtype = DType(i);
    CHECK(dtype_from_name(dtype_name(dtype)) == dtype);
    CHECK((is_floating(dtype) + is_integer(dtype) + is_complex(dtype)) ==
          (dtype != DType::pred && dtype != DType::token));
    if (is_computable(dtype))
      visit_dtype(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        CHECK(dtype_of<T>() == dtype);
        CHECK(int64_t(sizeof(T)) == dtype_size(dtype));
      });
  }
  CHECK(count == 16);
  CHECK_FALSE(dtype_from_name("f8"));
  CHECK_FALSE(dtype_from_name(""));
  CHECK(is_signed_integer(DType::s8));
  CHECK(is_unsigned_integer(DType::u64));
  CHECK_FALSE(is_computable(DType::c64));
}
