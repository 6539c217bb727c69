#include "gspmd/base/array.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace gspmd;
using Catch::Matchers::Contains;

TEST_CASE("arrays: a new array is zeros, aligned", "[array]") {
  const Array array(DType::f32, {3, 5});
  CHECK(array.size() == 15);
  CHECK(array.bytes().size() == 60);
  CHECK(reinterpret_cast<uintptr_t>(array.bytes().data()) % 64 == 0);
  for (const float value : array.data<float>()) CHECK(value == 0.0f);
  CHECK(Array(DType::f32, {0, 5}).bytes().empty());
  CHECK(Array().empty());
  CHECK_FALSE(array.empty());
}

TEST_CASE("arrays: copies share elements, clones do not", "[array]") {
  const Array a = Array::of<int32_t>({2, 2}, {1, 2, 3, 4});
  const Array shared = a;
  Array copy = a.clone();
  copy.set(0, 9);
  CHECK(a.at(0) == 1);
  a.data<int32_t>()[3] = 7;
  CHECK(shared.at(3) == 7);
  CHECK(copy.at(3) == 4);
  CHECK(a.dim(-1) == 2);
}

TEST_CASE("arrays: every dtype stores and gives back small numbers", "[array]") {
  for (int i = 0; i < int(DType::token); ++i) {
    const auto dtype = DType(i);
    if (!is_computable(dtype)) continue;
    Array array = Array::full(Shape(dtype, {3}), 1);
    array.set(1, 0);
    CAPTURE(dtype_name(dtype));
    CHECK(array.at(0) == 1);
    CHECK(array.at(1) == 0);
    CHECK(array.at(2) == 1);
    if (dtype == DType::pred || is_unsigned_integer(dtype)) continue;
    array.set(2, -5);
    CHECK(array.at(2) == -5);
  }
  Array truth(DType::pred, {1});
  truth.set(0, 3.5);
  CHECK(truth.at(0) == 1);
  CHECK(Array::scalar(2.5).item() == 2.5);
  CHECK(Array::of<bool>({2}, {true, false}).at(0) == 1);
  CHECK(Array::of<float16>({1}, {float16(1.5f)}).item() == 1.5);
}

TEST_CASE("arrays: full() is the same element everywhere, of any size and type", "[array]") {
  for (const DType dtype : {DType::pred, DType::s8, DType::f16, DType::f32, DType::s64, DType::c64,
                            DType::c128, DType::f8e4m3fn})
    for (const int64_t n : {0, 1, 3, 1000, 20000, 300000}) {
      const Array array = Array::full(Shape(dtype, {n}), 3);
      Array one(dtype, {1});
      one.set(0, 3);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; i += 7) wrong += array.at(i) != one.at(0);
      if (n > 0) wrong += array.at(n - 1) != one.at(0);
      CHECK(wrong == 0);
    }
}

TEST_CASE("arrays: bitwise equality sees the sign of zero, and any NaN as any other", "[array]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array a = Array::of<float>({2}, {nan, 0.0f});
  CHECK(bitwise_equal(a, Array::of<float>({2}, {-nan, 0.0f})));
  CHECK_FALSE(bitwise_equal(a, Array::of<float>({2}, {nan, -0.0f})));
  CHECK_FALSE(bitwise_equal(a, Array::of<float>({2}, {1.0f, 0.0f})));
  CHECK_FALSE(bitwise_equal(a, Array::of<float>({1, 2}, {nan, 0.0f})));
  CHECK_FALSE(bitwise_equal(Array::of<int32_t>({1}, {1}), Array::of<int32_t>({1}, {2})));
  CHECK_FALSE(bitwise_equal(Array::of<int32_t>({1}, {1}), Array::of<uint32_t>({1}, {1})));
  const Array half = Array::of<bfloat16>({1}, {bfloat16(nan)});
  CHECK(bitwise_equal(half, half.clone()));
}

TEST_CASE("arrays: mistakes name shapes and counts", "[array][error]") {
  const Array a = Array::of<float>({2}, {1, 2});
  CHECK_THROWS_WITH(Array::of<float>({3}, {1, 2}), Contains("2 values given for f32[3]"));
  CHECK_THROWS_WITH(a.data<double>(), Contains("f32[2] read as f64"));
  CHECK_THROWS_WITH(a.item(), Contains("f32[2] has 2 elements"));
  CHECK_THROWS_WITH(a.at(2), Contains("index 2 is outside the 2 elements"));
  CHECK_THROWS_WITH(a.at(-1), Contains("index -1"));
  CHECK_THROWS_WITH(Array(DType::f32, {-3}), Contains("f32[-3] has a negative size"));
  CHECK_THROWS_WITH(Array().bytes(), Contains("empty Array"));
  CHECK_THROWS_WITH(Array(DType::f32, {int64_t{1} << 40, int64_t{1} << 40}),
                    Contains("more bytes than can be addressed"));
}
