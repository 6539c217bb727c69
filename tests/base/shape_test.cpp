#include "gspmd/base/shape.h"

#include <catch2/catch.hpp>
#include <limits>

#include "gspmd/base/error.h"

using namespace gspmd;

TEST_CASE("shapes: counts, bytes and text", "[shape]") {
  const Shape matrix(DType::bf16, {2, 3});
  CHECK(matrix.rank() == 2);
  CHECK(matrix.elements_count() == 6);
  CHECK(matrix.bytes() == 12);
  CHECK(to_string(matrix) == "bf16[2,3]");
  const Shape scalar(DType::s32, {});
  CHECK(scalar.elements_count() == 1);
  CHECK(to_string(scalar) == "s32[]");
  CHECK(Shape(DType::token, {}).bytes() == 0);
}

TEST_CASE("shapes: tuples nest and flatten in order", "[shape]") {
  const Shape a(DType::f32, {2});
  const Shape b(DType::pred, {});
  const Shape nested = Shape::tuple({a, Shape::tuple({b, a}), Shape::tuple({})});
  CHECK(to_string(nested) == "(f32[2], (pred[], f32[2]), ())");
  CHECK(leaf_shapes(nested) == std::vector<Shape>{a, b, a});
  CHECK(leaf_count(nested) == 3);
  CHECK(nested.bytes() == 17);
  CHECK(nested.elements_count() == 0);
  CHECK(leaf_count(a) == 1);
}

TEST_CASE("shapes: equality is of dtype and dims, not of layout", "[shape]") {
  Shape a(DType::f32, {2, 3});
  Shape b = a;
  b.layout = "{0,1}";
  CHECK(a == b);
  b.dims[0] = 3;
  CHECK_FALSE(a == b);
  CHECK_FALSE(a == Shape(DType::f64, {2, 3}));
  CHECK_FALSE(a == Shape::tuple({a}));
  CHECK_FALSE(Shape(DType::f32, {}) == Shape::tuple({}));
}

TEST_CASE("shapes: sizes nobody can have saturate, an empty dim is zero all the same", "[shape]") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(Shape(DType::f32, {int64_t{1} << 40, int64_t{1} << 40}).elements_count() == kMost);
  CHECK(Shape(DType::f64, {int64_t{1} << 61}).bytes() == kMost);
  CHECK(Shape(DType::f32, {int64_t{1} << 40, int64_t{1} << 40, 0}).bytes() == 0);
  const Shape huge(DType::f64, {int64_t{1} << 59});
  CHECK(Shape::tuple({huge, huge, huge, huge}).bytes() == kMost);
  CHECK(saturating_multiply(3, 4) == 12);
  CHECK(saturating_multiply(kMost, 2) == kMost);
}

TEST_CASE("shapes: strides are row-major", "[shape]") {
  CHECK(row_major_strides({2, 3, 4}) == Dims{12, 4, 1});
  CHECK(row_major_strides({}).empty());
  CHECK(ceil_div(7, 3) == 3);
  CHECK(ceil_div(6, 3) == 2);
  CHECK(ceil_div(0, 3) == 0);
}

TEST_CASE("errors: a known site is part of the message", "[error]") {
  try {
    user_error(Site("model.cpp", 24), "dot: {} is not {}", 3, 4);
    FAIL("not thrown");
  } catch (const UserError& error) {
    CHECK(std::string(error.what()) == "dot: 3 is not 4 (model.cpp:24)");
    CHECK(error.site().line == 24);
  }
  CHECK_THROWS_WITH(internal_error("lost {}", "node"), "lost node");
  CHECK_THROWS_AS(execution_error("stopped"), ExecutionError);
  CHECK(Site::here().known());
  CHECK(std::string(Site::here().file).find("shape_test.cpp") != std::string::npos);
}
