// Sizes that follow from constants while the text is read, and those that do not.
#include <catch2/catch.hpp>
#include <string>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo::dynamic_test {
namespace {

std::unique_ptr<Module> read(const std::string& text) {
  auto module = parse_stablehlo(text, "dynamic.mlir");
  verify_module(*module);
  return module;
}

std::vector<double> run(const Module& module, const std::vector<Array>& arguments) {
  std::vector<Value> values;
  for (const Array& argument : arguments) values.push_back({argument, {}, false});
  const Array result = leaves(evaluate(module, values))[0];
  std::vector<double> numbers;
  for (int64_t i = 0; i < result.size(); ++i) numbers.push_back(result.at(i));
  return numbers;
}

std::string at_call(const std::string& size) {
  return R"(
func.func @main(%a: tensor<6x4xf32>) -> tensor<8x3xf32> {
  %c = stablehlo.constant dense<)" +
         size + R"(> : tensor<i64>
  %0 = call @f(%c, %a) : (tensor<i64>, tensor<6x4xf32>) -> tensor<?x3xf32>
  %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<?x3xf32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}
func.func private @floor_divide(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i64> {
  %0 = stablehlo.divide %a, %b : tensor<i64>
  %1 = stablehlo.sign %a : tensor<i64>
  %2 = stablehlo.sign %b : tensor<i64>
  %3 = stablehlo.compare  NE, %1, %2,  SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %c = stablehlo.constant dense<1> : tensor<i64>
  %4 = stablehlo.subtract %0, %c : tensor<i64>
  %5 = stablehlo.select %3, %4, %0 : tensor<i1>, tensor<i64>
  return %5 : tensor<i64>
}
func.func private @f(%b: tensor<i64> {jax.global_constant = "b"}, %a: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %c4 = stablehlo.constant dense<4> : tensor<i64>
  %ok = stablehlo.compare GE, %b, %c4 : (tensor<i64>, tensor<i64>) -> tensor<i1>
  "stablehlo.custom_call"(%ok, %b) <{api_version = 2 : i32, call_target_name = "shape_assertion", has_side_effect = true}> {error_message = "b >= 4, but is {0}"} : (tensor<i1>, tensor<i64>) -> ()
  %0 = stablehlo.multiply %b, %c4 : tensor<i64>
  %c3 = stablehlo.constant dense<3> : tensor<i64>
  %1 = call @floor_divide(%0, %c3) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %2 = stablehlo.convert %1 : (tensor<i64>) -> tensor<i32>
  %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
  %three = stablehlo.constant dense<3> : tensor<1xi32>
  %sizes = stablehlo.concatenate %3, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %4 = stablehlo.dynamic_reshape %a, %sizes : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %5:2 = stablehlo.while(%i = %zero, %x = %4) : tensor<i32>, tensor<?x3xf32>
   cond {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %7 = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %7 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %7 = stablehlo.dynamic_broadcast_in_dim %one, %sizes, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %8 = stablehlo.add %x, %7 : tensor<?x3xf32>
    %9 = stablehlo.constant dense<1> : tensor<i32>
    %10 = stablehlo.add %i, %9 : tensor<i32>
    stablehlo.return %10, %8 : tensor<i32>, tensor<?x3xf32>
  }
  return %5#1 : tensor<?x3xf32>
}
)";
}

}  // namespace

TEST_CASE("sizes follow from a function's arguments, calls, and values around a loop",
          "[dynamic]") {
  Array a(Shape(DType::f32, {6, 4}));
  for (int64_t i = 0; i < 24; ++i) a.set(i, static_cast<double>(i));
  std::vector<double> expected;
  for (int i = 0; i < 24; ++i) expected.push_back(i + 2);
  CHECK(run(*read(at_call("6")), {a}) == expected);
  CHECK_THROWS_WITH(read(at_call("3")),
                    Catch::Contains("argument 1 of @f") || Catch::Contains("b >= 4, but is 3"));
}

TEST_CASE("sizes follow through reductions, barriers and branches", "[dynamic]") {
  const auto module = read(R"(
func.func @main(%a: tensor<2x3xf32>, %p: tensor<i1>) -> tensor<6xf32> {
  %d0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<2x3xf32>) -> tensor<i32>
  %d1 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  %e0 = stablehlo.reshape %d0 : (tensor<i32>) -> tensor<1xi32>
  %e1 = stablehlo.reshape %d1 : (tensor<i32>) -> tensor<1xi32>
  %e = stablehlo.concatenate %e0, %e1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.reduce(%e init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
  %b:2 = stablehlo.optimization_barrier %n, %a : tensor<i32>, tensor<2x3xf32>
  %q = stablehlo.reshape %b#0 : (tensor<i32>) -> tensor<1xi32>
  %r = "stablehlo.if"(%p) ({
    %x = stablehlo.dynamic_reshape %b#1, %q : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<6xf32>
    stablehlo.return %x : tensor<6xf32>
  }, {
    %x = stablehlo.dynamic_iota %q, dim = 0 : (tensor<1xi32>) -> tensor<6xf32>
    stablehlo.return %x : tensor<6xf32>
  }) : (tensor<i1>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}
)");
  const Array a = Array::of<float>({2, 3}, {9, 8, 7, 6, 5, 4});
  CHECK(run(*module, {a, Array::scalar(true)}) == std::vector<double>{9, 8, 7, 6, 5, 4});
  CHECK(run(*module, {a, Array::scalar(false)}) == std::vector<double>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a function of fixed types is made for each call that gives it sizes", "[dynamic]") {
  const std::string function = R"(
func.func private @f(%a: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<2x3xf32> {
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
func.func @main(%a: tensor<6xf32>, %n: tensor<2xi32>) -> tensor<2x3xf32> {
)";
  const std::string behind =
      " : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>\nreturn %r : tensor<2x3xf32>\n}\n";
  CHECK(read(function + "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n" +
             "%r = call @f(%a, %s)" + behind) != nullptr);
  CHECK_THROWS_WITH(read(function + "%r = call @f(%a, %n)" + behind),
                    Catch::Contains("dynamic.mlir:3:8: stablehlo.dynamic_reshape: operand 1") &&
                        Catch::Contains("is not constant: export with static shapes"));
}

TEST_CASE("a call that may not end or that has effects says no size", "[dynamic]") {
  const std::string loop = R"(
func.func private @size() -> tensor<1xi32> {
  %c = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.while(%x = %c) : tensor<1xi32>
   cond {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %true : tensor<i1>
  } do {
    stablehlo.return %x : tensor<1xi32>
  }
  return %0 : tensor<1xi32>
}
func.func @main() -> tensor<4xf32> {
  %s = call @size() : () -> tensor<1xi32>
  %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
)";
  CHECK_THROWS_WITH(read(loop),
                    Catch::Contains("dynamic.mlir:15:8") && Catch::Contains("is not constant"));
}

TEST_CASE("a slice whose starts are computed checks that its limits fit", "[dynamic]") {
  const auto module = read(R"(
func.func @main(%a: tensor<6xf32>, %i: tensor<1xi32>, %j: tensor<1xi32>) -> tensor<2xf32> {
  %s = stablehlo.constant dense<1> : tensor<1xi32>
  %r = stablehlo.real_dynamic_slice %a, %i, %j, %s : (tensor<6xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
)");
  const Array a = Array::of<float>({6}, {0, 1, 2, 3, 4, 5});
  const auto slice = [&](int32_t start, int32_t limit) {
    return run(*module, {a, Array::of<int32_t>({1}, {start}), Array::of<int32_t>({1}, {limit})});
  };
  CHECK(slice(3, 5) == std::vector<double>{3, 4});
  CHECK(slice(4, 6) == std::vector<double>{4, 5});
  for (const auto& [start, limit] : {std::pair(3, 6), {3, 4}, {-1, 1}, {5, 7}})
    CHECK_THROWS_WITH(slice(start, limit), Catch::Contains("line 4: the limits of the slice"));
}

TEST_CASE("a bounded value of its full size runs, one of less is refused", "[dynamic]") {
  const auto text = [](const std::string& rows) {
    return "func.func @main(%a: tensor<?x3xf32, #stablehlo.bounds<10, ?>>) -> tensor<?x3xf32, "
           "#stablehlo.bounds<10, ?>> {\n%s = stablehlo.constant dense<[" +
           rows +
           ", 3]> : tensor<2xi32>\n%c = stablehlo.constant dense<2.0> : tensor<3xf32>\n"
           "%0 = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [1] : (tensor<3xf32>, "
           "tensor<2xi32>) -> tensor<?x3xf32, #stablehlo.bounds<10, ?>>\n"
           "%1 = stablehlo.add %a, %0 : tensor<?x3xf32, #stablehlo.bounds<10, ?>>\n"
           "return %1 : tensor<?x3xf32, #stablehlo.bounds<10, ?>>\n}\n";
  };
  const auto module = read(text("10"));
  CHECK(module->entry()->root()->shape.dynamic_dims == std::vector<bool>{true, false});
  CHECK(run(*module, {Array(Shape(DType::f32, {10, 3}))}) == std::vector<double>(30, 2));
  CHECK_THROWS_WITH(read(text("5")), Catch::Contains("dynamic.mlir:4:6") &&
                                         Catch::Contains("gives dim 0 of the result the size 5"));
}

TEST_CASE("a size that is set to less ends the run, whoever reads it", "[dynamic]") {
  for (const char* const size : {"3", "-1", "5"}) {
    const auto module = read(std::string("func.func @main(%a: tensor<4xf32>) -> tensor<i32> {\n"
                                         "%c = stablehlo.constant dense<") +
                             size +
                             "> : tensor<i32>\n%r = stablehlo.set_dimension_size %a, %c, dim = 0 "
                             ": (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, "
                             "#stablehlo.bounds<4>>\n%s = stablehlo.get_dimension_size %r, dim = "
                             "0 : (tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<i32>\n"
                             "%z = stablehlo.constant dense<4> : tensor<i32>\n"
                             "return %z : tensor<i32>\n}\n");
    CHECK_THROWS_WITH(run(*module, {Array(Shape(DType::f32, {4}))}),
                      Catch::Contains("dynamic.mlir:3") && Catch::Contains("take a slice"));
  }
}

}  // namespace gspmd::stablehlo::dynamic_test
