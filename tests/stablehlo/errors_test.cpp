#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {
namespace {

// One mistake in a text and what is said of it.
struct Mistake {
  const char* text;
  const char* message;
};

std::string message_of(const std::string& text) {
  try {
    parse_stablehlo(text, "m.mlir");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

void check_body(const Mistake& mistake) {
  const std::string text =
      std::string("func.func @main(%a: tensor<4xf32>, %i: tensor<i32>) -> tensor<4xf32> {\n") +
      mistake.text + "\nreturn %a : tensor<4xf32>\n}\n";
  INFO(text);
  CHECK_THAT(message_of(text), Catch::Contains(mistake.message));
  CHECK_THAT(message_of(text), Catch::StartsWith("m.mlir:"));
}

void check_text(const Mistake& mistake) {
  INFO(mistake.text);
  CHECK_THAT(message_of(mistake.text), Catch::Contains(mistake.message));
}

// In a function @main of %a: tensor<4xf32> and %i: tensor<i32>.
const Mistake kInBodies[] = {
    {"%r = stablehlo.frobnicate %a : tensor<4xf32>",
     "\"stablehlo.frobnicate\" is no op that is known"},
    {"%r = stablehlo.add %a, %b : tensor<4xf32>", "%b is not defined here"},
    {"%r = stablehlo.add %a : tensor<4xf32>", "1 operands given, 2 needed"},
    {"%r = stablehlo.add %a, %a : tensor<5xf32>",
     "operand 0 is declared as tensor<5xf32>, but %a is tensor<4xf32>"},
    {"%r = stablehlo.add %a, %i : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>",
     "stablehlo.add: "},
    {"%r = stablehlo.negate %a : (tensor<4xf32>) -> tensor<4xf64>",
     "the result is declared as tensor<4xf64>, but the operands give tensor<4xf32>"},
    {"%r:2 = stablehlo.negate %a : tensor<4xf32>", "2 names for 1 results"},
    {"%r:2 = stablehlo.custom_call @f(%a) {mhlo.frontend_attributes = {mlir.captures = \"1\"}, "
     "mhlo.sharding = \"{{replicated}}\"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
     "1 elements for the 2 leaves"},
    {"%r = stablehlo.negate %a : tensor<4xf32>\n%r = stablehlo.negate %a : tensor<4xf32>",
     "%r is defined twice"},
    {"%r = stablehlo.compare XX, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
     "comparison_direction XX is none of"},
    {"%r = stablehlo.compare LT, %a, %a, SIGNED : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
     "compare_type SIGNED does not fit"},
    {"%r = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<5xf32>", "a reshape keeps the count"},
    {"%r = stablehlo.broadcast_in_dim %a, dims = [2] : (tensor<4xf32>) -> tensor<2x4xf32>",
     "dim 0 of the operand is to be dim 2 of the result's 2"},
    {"%r = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<4xf32>) -> tensor<2x4xf32>",
     "it has to be equal or 1"},
    {"%r = stablehlo.transpose %a, dims = [0, 1] : (tensor<4xf32>) -> tensor<4xf32>",
     "stablehlo.transpose: "},
    {"%r = stablehlo.transpose %a, perm = [0] : (tensor<4xf32>) -> tensor<4xf32>",
     "it has no \"perm\""},
    {"%r = stablehlo.slice %a [0:9] : (tensor<4xf32>) -> tensor<9xf32>", "stablehlo.slice: "},
    {"%r = stablehlo.iota dim = 3 : tensor<4xi32>", "stablehlo.iota: "},
    {"%r = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>",
     "2 elements where dim 0 of f32[3] has 3"},
    {"%r = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<2xf32>",
     "expected \"]\" behind the 2 elements"},
    {"%r = stablehlo.constant dense<\"0x0000803\"> : tensor<1xf32>", "one hex digit only"},
    {"%r = stablehlo.constant dense<\"0x0000803G\"> : tensor<1xf32>", "no hex number"},
    {"%r = stablehlo.constant dense<\"0x000080\"> : tensor<2xf32>",
     "3 bytes for f32[2], which has 8"},
    {"%r = stablehlo.constant dense<0x1FFFF> : tensor<2xbf16>",
     "does not fit into the 16 bits of bf16"},
    {"%r = stablehlo.constant dense<300> : tensor<2xi8>", "300 does not fit into s8"},
    {"%r = stablehlo.constant dense<__elided__> : tensor<2xi8>", "left out of the text"},
    {"%r = stablehlo.constant dense_resource<__elided__> : tensor<2xi8>", "left out of the text"},
    {"%r = stablehlo.constant dense_resource<blob> : tensor<2xi8>", "there is no resource blob"},
    {"%r = \"stablehlo.negate\"(%a) <{colour = 1 : i64}> : (tensor<4xf32>) -> tensor<4xf32>",
     "it has no attribute colour"},
    {"%r = \"stablehlo.negate\"(%a) {a = 1, a = 2} : (tensor<4xf32>) -> tensor<4xf32>",
     "the attribute a is given twice"},
    {"%r = stablehlo.dynamic_reshape %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
     "it has to be the 1 sizes of the result"},
    {"%s = stablehlo.slice %a [0:1] : (tensor<4xf32>) -> tensor<1xf32>\n%r = "
     "stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>",
     "it has to be of a few integers"},
    {"%s = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>\n%r = stablehlo.dynamic_reshape "
     "%a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>",
     "operand 1 of stablehlo.dynamic_reshape is not constant: export with static shapes"},
    {"%s = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>\n%r = stablehlo.dynamic_reshape "
     "%a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>",
     "operand 1 of stablehlo.dynamic_reshape is not constant: export with static shapes"},
    {"%s = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>\n%r = stablehlo.dynamic_iota "
     "%s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32, #stablehlo.bounds<4>>",
     "operand 0 of stablehlo.dynamic_iota is not constant: export with static shapes"},
    {"%s = stablehlo.constant dense<3> : tensor<1xi32>\n%r = stablehlo.dynamic_iota %s, dim = 0 : "
     "(tensor<1xi32>) -> tensor<?xf32, #stablehlo.bounds<4>>",
     "operand 0 gives dim 0 of the result the size 3"},
    {"%s = stablehlo.constant dense<[-2, -2]> : tensor<2xi32>\n%r = stablehlo.dynamic_reshape "
     "%a, %s : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
     "operand 1 gives dim 0 of the result the size -2"},
    {"%s = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>\n%c = stablehlo.constant "
     "dense<2> : tensor<1xi32>\n%r = stablehlo.real_dynamic_slice %a, %s, %s, %c : "
     "(tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>",
     "operand 1 of stablehlo.real_dynamic_slice is not constant: export with static shapes"},
    {"%r = stablehlo.real_dynamic_slice %a, %i, %i, %i : (tensor<4xf32>, tensor<i32>, "
     "tensor<i32>, tensor<i32>) -> tensor<2xf32>",
     "operand 1 is s32[]; it has to be 1 integers, one for each dim of f32[4]"},
    {"%c = stablehlo.constant dense<4> : tensor<i32>\n%no = stablehlo.compare GT, %c, %c : "
     "(tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.custom_call @shape_assertion(%no, %c) "
     "{error_message = \"b > 4, it is {0}\", has_side_effect = true} : (tensor<i1>, tensor<i32>) "
     "-> ()",
     "b > 4, it is 4"},
    {"%r = call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>", "there is no function @g"},
    {"%r = call @main(%a, %i) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>",
     "@main calls itself through @main"},
    {"%r = stablehlo.negate %a {mhlo.sharding = \"{devices=[2\"} : tensor<4xf32>",
     "mhlo.sharding: "},
    {"%r = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, "
     "1.0>>",
     "dequantize"},
    {"%r = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xtf32>",
     "the element type tf32 is not supported"},
    {"%r = stablehlo.negate %a : tensor<4xf33>", "\"f33\" is no element type"},
    {"%r = stablehlo.negate %a : tensor<4xfloat>", "\"float\" is no element type"},
    {"%r = stablehlo.negate %a : tensor<*xf32>", "a tensor without a rank is not supported"},
    {"%r = \"stablehlo.if\"(%i) ({stablehlo.return %a : tensor<4xf32>}, {stablehlo.return %a : "
     "tensor<4xf32>}) : (tensor<i32>) -> tensor<4xf32>",
     "the condition is tensor<i32>"},
    {"%r = \"stablehlo.case\"(%i) ({stablehlo.return %a : tensor<4xf32>}, {stablehlo.return %i : "
     "tensor<i32>}) : (tensor<i32>) -> tensor<4xf32>",
     "all return one shape"},
    {"%r = \"stablehlo.case\"(%i) ({%z = stablehlo.negate %a : tensor<4xf32>}) : (tensor<i32>) "
     "-> tensor<4xf32>",
     "does not end with a return"},
    {"%r = stablehlo.while(%x = %i) : tensor<i32> cond { stablehlo.return %x : tensor<i32> } do "
     "{ stablehlo.return %x : tensor<i32> }",
     "it has to return pred[]"},
    {"%r = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [0] : "
     "(tensor<4xf32>, tensor<i32>) -> tensor<f32>",
     "stablehlo."},
    {"%r = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], algorithm = "
     "<lhs_precision_type = f32, rhs_precision_type = bf16, accumulation_type = f32, "
     "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, "
     "allow_imprecise_accumulation = false> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>",
     "is not known"},
    {"%r = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, "
     "0]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>",
     "device 0 stands in two places"},
    {"%r = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = "
     "#stablehlo.replica_group_mesh_axes<mesh = @m, axes = []>}> : (tensor<4xf32>) -> "
     "tensor<8xf32>",
     "there is no mesh @m"},
    {"%r = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = "
     "#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [<name = \"x\", size = "
     "2>]>, "
     "axes = [<name = \"x\">, <name = \"x\">]>}> : (tensor<4xf32>) -> tensor<8xf32>",
     "is listed twice"},
    {"%r = sdy.propagation_barrier %a allowed_direction=SIDEWAYS : tensor<4xf32>",
     "allowed_direction SIDEWAYS"},
    {"return %a : tensor<4xf32>", "stands behind the region's return"},
    {"\"cf.br\"()[^bb1] : () -> ()", "branches between blocks are not supported"},
};

const Mistake kAround[] = {
    {"", "the text has no module"},
    {"module {", "a \"}\" is missing"},
    {"module { func.func @main() { return }", "a \"}\" is missing"},
    {"module { func.func @main() { return", "a \"}\" is missing"},
    {"module { }", "the module has no function"},
    {"func.func @f() { return }\nfunc.func @g() { return }", "2 public functions: @f, @g"},
    {"func.func @f() { return }\nfunc.func @f() { return }", "the function @f is defined twice"},
    {"func.func @main(%a: tensor<?xf32>) { return }",
     "whose size is open: export with static shapes"},
    {"func.func @main(%a: tensor<2xf32>) -> tensor<3xf32> { return %a : tensor<2xf32> }",
     "result 0 is declared as tensor<3xf32>"},
    {"func.func @main() -> tensor<3xf32> { return }", "returns 0 values, 1 are declared"},
    {"func.func @main(%a: #x) { return }", "expected a type"},
    {"func.func @main(%a: !x) { return }", "there is no type alias \"!x\""},
    {"!x = !x\nfunc.func @main(%a: !x) { return }", "stands for itself"},
    {"#x = #x\nfunc.func @main(%a: tensor<f32> {mhlo.sharding = #x}) { return }",
     "stands for itself"},
    {"func.func private @g(tensor<f32>) -> tensor<f32>\nfunc.func @main(%a: tensor<f32>) -> "
     "tensor<f32> { %0 = call @g(%a) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }",
     "declared without a body"},
    {"func.func @f(%a: tensor<f32>) -> tensor<f32> { %0 = call @g(%a) : (tensor<f32>) -> "
     "tensor<f32> return %0 : tensor<f32> }\nfunc.func private @g(%a: tensor<f32>) -> "
     "tensor<f32> { %0 = call @f(%a) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }",
     "recursion is not supported"},
    {"module attributes {mhlo.num_partitions = 0 : i32} { func.func @main() { return } }",
     "mhlo.num_partitions is no number from 1"},
    {"sdy.mesh @m = <[\"x\"=2]>\nsdy.mesh @m = <[\"x\"=2]>\nfunc.func @main() { return }",
     "the mesh @m is given twice"},
    {"func.func @main() { return }\n// -----\nfunc.func @main() { return }",
     "2 modules in one file"},
    {"module { module { func.func @main() { return } } }", "a module inside a module"},
    {"func.func @main(%a: tensor<f32> {tf.aliasing_output = 1 : i32}) -> tensor<f32> { return %a "
     ": tensor<f32> }",
     "tf.aliasing_output is no number of the 1 results"},
    {"module {\n  vhlo.func_v1 @main() -> () {\n  }\n}",
     "m.mlir:2:3: \"vhlo.func_v1\" is VHLO; give StableHLO"},
    {"\"vhlo.func_v1\"() <{sym_name = #vhlo.string_v1<\"main\">}> ({}) : () -> ()",
     "is VHLO; give StableHLO"},
};

}  // namespace

TEST_CASE("a mistake in an op names its line and what is wrong", "[errors]") {
  for (const Mistake& mistake : kInBodies) check_body(mistake);
}

TEST_CASE("a mistake around ops is named too", "[errors]") {
  for (const Mistake& mistake : kAround) check_text(mistake);
}

TEST_CASE("the language of a text is found from its words", "[language]") {
  CHECK(language_of("HloModule module\nENTRY e { ROOT a = f32[] parameter(0) }") == Language::hlo);
  CHECK(language_of("module { ROOT a = f32[] parameter(0) }") == Language::stablehlo);
  CHECK(language_of("// a comment\n#loc = loc(unknown)\nmodule {}") == Language::stablehlo);
  CHECK(language_of("func.func @main() { return }") == Language::stablehlo);
  CHECK(language_of("func { ROOT a = f32[] parameter(0) }") == Language::hlo);
  CHECK(language_of("\"builtin.module\"() ({}) : () -> ()") == Language::stablehlo);
  CHECK(language_of("ROOT a = f32[] parameter(0)") == Language::hlo);
  CHECK(language_of("") == Language::hlo);
  CHECK(language_of("vhlo.func_v1 @main() {}") == Language::stablehlo);
}

TEST_CASE("a text may begin with the mark of UTF-8, bytecode is none", "[language]") {
  const std::string mark = "\xEF\xBB\xBF";
  for (const char* text : {"HloModule m\nENTRY e { ROOT a = f32[] parameter(0) }",
                           "module { func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a "
                           ": tensor<f32> } }"}) {
    CHECK(language_of(mark + text) == language_of(text));
    CHECK(read_module(mark + text, "m")->entry()->name() ==
          read_module(text, "m")->entry()->name());
    CHECK(read_modules(mark + text, "m").size() == 1);
  }
  CHECK_THROWS_WITH(read_module(std::string("ML\xEFR\x01\0", 6), "m.mlirbc"),
                    Catch::StartsWith("m.mlirbc is MLIR bytecode; give the program's text"));
}

}  // namespace gspmd::stablehlo
