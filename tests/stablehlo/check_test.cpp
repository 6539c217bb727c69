#include <catch2/catch.hpp>
#include <string>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {
namespace {

// Whether a check of %a and %b, one literal each of a type, lets the program go on.
bool holds(const std::string& a, const std::string& b, const std::string& type,
           const std::string& check) {
  const std::string text = "func.func @main() -> " + type + " {\n%a = stablehlo.constant dense<" +
                           a + "> : " + type + "\n%b = stablehlo.constant dense<" + b +
                           "> : " + type + "\n" + check + "\nreturn %a : " + type + "\n}\n";
  const std::unique_ptr<Module> module = parse_stablehlo(text, "check.mlir");
  try {
    evaluate(*module, {});
  } catch (const ExecutionError& error) {
    CHECK(std::string(error.what()).find("line 4: the value is not") != std::string::npos);
    return false;
  }
  return true;
}

bool close(const std::string& a, const std::string& b, const std::string& type,
           const std::string& limits = "") {
  const bool as_op =
      holds(a, b, type, "check.expect_close %a, %b" + limits + " : " + type + ", " + type);
  if (limits.empty())
    CHECK(holds(a, b, type,
                "stablehlo.custom_call @check.expect_close(%a, %b) {has_side_effect = true} : (" +
                    type + ", " + type + ") -> ()") == as_op);
  return as_op;
}

}  // namespace

TEST_CASE("check.expect_close counts numbers of the type itself, three of which may lie between") {
  CHECK(close("0x3F800000", "0x3F800003", "tensor<f32>"));
  CHECK_FALSE(close("0x3F800000", "0x3F800004", "tensor<f32>"));
  CHECK(close("0x3F80", "0x3F83", "tensor<bf16>"));
  CHECK_FALSE(close("0x3F80", "0x3F84", "tensor<bf16>"));
  CHECK(close("0x3C03", "0x3C00", "tensor<f16>"));
  CHECK_FALSE(close("0x3C04", "0x3C00", "tensor<f16>"));
  CHECK(close("0x38", "0x3B", "tensor<f8E4M3FN>"));
  CHECK_FALSE(close("0x38", "0x3C", "tensor<f8E4M3FN>"));
  CHECK(close("0x3FF0000000000000", "0x3FF0000000000003", "tensor<f64>"));
  CHECK_FALSE(close("0x3FF0000000000000", "0xBFF0000000000000", "tensor<f64>"));
  CHECK(close("0x80000001", "0x00000002", "tensor<f32>"));  // across zero
  CHECK(close("(1.0, 2.0)", "(0x3F800003, 2.0)", "tensor<complex<f32>>"));
  CHECK_FALSE(close("(1.0, 2.0)", "(1.0, 0x40000004)", "tensor<complex<f32>>"));
}

TEST_CASE("check.expect_close: nan is close to nan only, infinity to the numbers before it") {
  CHECK(close("0x7FC00000", "0x7F800001", "tensor<f32>"));
  CHECK_FALSE(close("0x7F800000", "0x7F800001", "tensor<f32>"));
  CHECK(close("0x7F800000", "0x7F7FFFFF", "tensor<f32>"));
  CHECK_FALSE(close("0x7F800000", "0xFF800000", "tensor<f32>"));
}

TEST_CASE("check.expect_close takes the limits of the largest distance") {
  CHECK(close("0x3F800000", "0x3F800009", "tensor<f32>", ", max_ulp_difference = 9"));
  CHECK_FALSE(close("0x3F800000", "0x3F80000A", "tensor<f32>", ", max_ulp_difference = 9"));
  const std::string both = ", max_ulp_difference = 9, min_ulp_difference = 2";
  CHECK(close("[1.0, 1.0]", "[0x3F800002, 1.0]", "tensor<2xf32>", both));
  CHECK_FALSE(close("[1.0, 1.0]", "[0x3F800001, 1.0]", "tensor<2xf32>", both));
}

TEST_CASE("check.expect_almost_eq has an absolute tolerance, expect_eq none") {
  const auto almost = [](const std::string& b, const std::string& limit = "") {
    return holds("1.0", b, "tensor<f32>",
                 "check.expect_almost_eq %a, %b" + limit + " : tensor<f32>, tensor<f32>");
  };
  CHECK(almost("1.00009"));
  CHECK_FALSE(almost("1.0002"));
  CHECK(almost("1.05", " {tolerance = 0.1 : f64}"));
  CHECK_FALSE(almost("1.2", " {tolerance = 0.1 : f64}"));
  const std::string equal = "check.expect_eq %a, %b : tensor<2xi8>";
  CHECK(holds("[1, -1]", "[1, -1]", "tensor<2xi8>", equal));
  CHECK_FALSE(holds("[1, -1]", "[1, -2]", "tensor<2xi8>", equal));
  CHECK(holds("1.0", "0.0", "tensor<f32>", "check.expect_eq_const %a, dense<1.0> : tensor<f32>"));
  CHECK_FALSE(holds("1.0", "0.0", "tensor<f32>",
                    "check.expect_almost_eq_const %b, dense<1.0> : tensor<f32>"));
}

TEST_CASE("check.eq of older programs is a value") {
  const std::unique_ptr<Module> module = parse_stablehlo(R"(
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<i1> {
  %0 = stablehlo.custom_call @check.eq(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<i1>
  return %0 : tensor<i1>
}
)",
                                                         "check.mlir");
  const auto of = [&](float b) {
    const std::vector<Value> arguments = {{Array::of<float>({2}, {1, 2}), {}, false},
                                          {Array::of<float>({2}, {1, b}), {}, false}};
    return leaves(evaluate(*module, arguments))[0].at(0) != 0;
  };
  CHECK(of(2.00001f));
  CHECK_FALSE(of(2.1f));
}

TEST_CASE("check.expect_serialized_eq is refused with its place") {
  CHECK_THROWS_WITH(parse_stablehlo(R"(
func.func @main(%a: tensor<2xf32>) {
  "check.expect_serialized_eq"(%a) <{probe_id = "p"}> : (tensor<2xf32>) -> ()
  return
}
)",
                                    "check.mlir"),
                    Catch::Contains("check.mlir:3:3: check.expect_serialized_eq: what a probe"));
}

}  // namespace gspmd::stablehlo
