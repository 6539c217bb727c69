// What stands beside StableHLO in the text of exporters, and large programs.
#include <catch2/catch.hpp>
#include <string>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {
namespace {

std::unique_ptr<Module> read(const std::string& text) {
  auto module = parse_stablehlo(text, "dialects.mlir");
  verify_module(*module);
  return module;
}

std::string in_main(const std::string& arguments, const std::string& result,
                    const std::string& ops) {
  return "func.func @main(" + arguments + ") -> " + result + " {\n" + ops +
         "return %r : " + result + "\n}\n";
}

}  // namespace

TEST_CASE("ops of mhlo are those of StableHLO and CHLO of the same names", "[dialects]") {
  const std::string text = R"(
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2xf32> {
  %0 = "mhlo.dot_general"(%a, %b) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = mhlo.constant dense<0.0> : tensor<f32>
  %2 = mhlo.tanh %0 : tensor<2x2xf32>
  %3 = mhlo.reduce(%2 init: %1) applies mhlo.add across dimensions = [0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %4 = "mhlo.erf"(%3) : (tensor<2xf32>) -> tensor<2xf32>
  %5:2 = mhlo.top_k(%4, k = 1) : tensor<2xf32> -> (tensor<1xf32>, tensor<1xi32>)
  return %4 : tensor<2xf32>
}
)";
  std::string same = text;
  for (size_t at = 0; (at = same.find("mhlo", at)) != same.npos;)
    same.replace(at, 4,
                 same[at + 5] == 'e' || same.substr(at + 5, 3) == "top" ? "chlo" : "stablehlo");
  CHECK(structurally_equal(*read(text), *read(same)));
  const auto own = read(R"(
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = mhlo.copy %a : tensor<4xf32>
  %1:2 = mhlo.topk(%0, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %0, %1#0 : tensor<4xf32>, tensor<2xf32>
}
)");
  const auto& nodes = own->entry()->nodes();
  CHECK((nodes[1]->is(Opcode::copy) && nodes[2]->is(Opcode::topk)));
}

TEST_CASE("the sharding of a loop is of its results, not of what it reads from around it",
          "[dialects]") {
  const auto module = read(R"(
module @m attributes {mhlo.num_partitions = 2 : i32} {
func.func @main(%arg0: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}, %w: tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %5 = stablehlo.add %w, %w : tensor<8xf32>
  %0:2 = stablehlo.while(%i = %c, %x = %arg0) : tensor<i32>, tensor<8xf32> attributes {mhlo.sharding = "{{replicated}, {devices=[2]<=[2]}}"}
   cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    %3 = stablehlo.multiply %x, %5 : tensor<8xf32>
    stablehlo.return %2, %3 : tensor<i32>, tensor<8xf32>
  }
  return %0#0, %0#1 : tensor<i32>, tensor<8xf32>
}
}
)");
  const Node* loop = nullptr;
  for (const auto& node : module->entry()->nodes())
    if (node->is(Opcode::while_)) loop = node.get();
  REQUIRE((loop != nullptr && loop->sharding && loop->shape.elements.size() == 3));
  const std::vector<Sharding>& leaves = loop->sharding->elements();
  REQUIRE(leaves.size() == 3);
  CHECK(leaves[0].is_replicated());
  CHECK(to_string(leaves[1]) == "{devices=[2]<=[2]}");
  CHECK(leaves[2] == Sharding::unknown());
  CHECK(propagate(*module));
}

TEST_CASE("sizes of tensors and arithmetic on them are known while the text is read",
          "[dialects]") {
  const auto module = read(R"(
func.func @main(%a: tensor<2x3xf32>) -> (tensor<?x?xf32>, tensor<i64>) {
  %c0 = arith.constant 0 : index
  %c1 = "arith.constant"() <{value = 1 : index}> : () -> index
  %d0 = tensor.dim %a, %c0 : tensor<2x3xf32>
  %d1 = tensor.dim %a, %c1 : tensor<2x3xf32>
  %0 = arith.muli %d0, %d1 : index
  %1 = arith.index_cast %0 : index to i64
  %2 = arith.index_cast %d1 : index to i64
  %sizes = tensor.from_elements %1, %2 : tensor<2xi64>
  %shape = shape.shape_of %a : tensor<2x3xf32> -> tensor<2xindex>
  %rows = tensor.extract %shape[%c0] : tensor<2xindex>
  %e = tensor.from_elements %rows : tensor<1xindex>
  %f = stablehlo.convert %e : (tensor<1xindex>) -> tensor<1xi64>
  %g = stablehlo.reshape %f : (tensor<1xi64>) -> tensor<i64>
  %one = arith.constant dense<1.0> : tensor<f32>
  %r = stablehlo.dynamic_broadcast_in_dim %one, %sizes, dims = [] : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
  %s = tensor.cast %r : tensor<?x?xf32> to tensor<6x3xf32>
  return %s, %g : tensor<6x3xf32>, tensor<i64>
}
)");
  const Shape& root = module->entry()->root()->shape;
  CHECK(to_string(root) == "(f32[6,3], s64[])");
  const std::vector<Array> results =
      leaves(evaluate(*module, std::vector<Value>{{Array(Shape(DType::f32, {2, 3})), {}, false}}));
  CHECK(results[0].at(17) == 1);
  CHECK(results[1].at(0) == 2);
}

TEST_CASE("dialects that are not read are refused with the way out", "[dialects]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"cf.br ^bb1(%a : tensor<f32>)\n", "use stablehlo.if, case or while"},
      {"%r = vhlo.add_v1 %a, %a : tensor<f32>\n", "write the program as StableHLO text"},
      {"%r = scf.if %a -> tensor<f32> {}\n", "use stablehlo.while, if or case"},
      {"%r = \"tosa.add\"(%a, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n",
       "lower the program to StableHLO"},
      {"%r = foo.bar %a : tensor<f32>\n", "no op that is known"}};
  for (const auto& [op, message] : cases)
    CHECK_THROWS_WITH(read(in_main("%a: tensor<f32>", "tensor<f32>", op)),
                      Catch::Contains("dialects.mlir:2:") && Catch::Contains(message));
}

TEST_CASE("short floats are read, printed and computed", "[dialects]") {
  // 0x1F are the bits of the largest number of either type, 7.5 and 28.
  for (const auto& [type, largest] :
       std::vector<std::pair<std::string, double>>{{"f6E2M3FN", 7.5}, {"f6E3M2FN", 28}}) {
    const auto module = read(in_main("%a: tensor<2x" + type + ">", "tensor<2xf32>",
                                     "%c = stablehlo.constant dense<[0x1F, -0.125]> : tensor<2x" +
                                         type + ">\n%0 = stablehlo.add %a, %c : tensor<2x" + type +
                                         ">\n%r = stablehlo.convert %0 : (tensor<2x" + type +
                                         ">) -> tensor<2xf32>\n"));
    const std::string printed = to_stablehlo(*module);
    CHECK(to_stablehlo(*read(printed)) == printed);
    CHECK(to_stablehlo(*parse_module(to_text(*module))) == printed);
    const Value zeros{Array(module->entry()->parameters()[0]->shape), {}, false};
    const Array sum = evaluate(*module, std::vector<Value>{zeros}).array;
    CHECK(sum.at(0) == largest);
    CHECK(sum.at(1) == -0.125);
  }
  CHECK_THROWS_WITH(
      read(in_main("%a: tensor<4xf6E2M3FN>", "tensor<4xui8>",
                   "%r = stablehlo.bitcast_convert %a : (tensor<4xf6E2M3FN>) -> tensor<4xui8>\n")),
      Catch::Contains("of 6 bits and u8 of 8"));
}

TEST_CASE("large literals are printed in pieces that make up the text", "[dialects]") {
  Module module("large");
  Computation* const entry = module.add_computation("main");
  Array array(Shape(DType::f32, {300, 1000}));
  for (size_t i = 0; i < array.bytes().size(); ++i)
    array.bytes()[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  Attributes attrs;
  attrs.literal = array;
  entry->set_root(entry->append(Opcode::constant, array.shape(), {}, attrs));
  module.set_entry(entry);
  size_t longest = 0;
  std::string text;
  print_stablehlo(module, [&](std::string_view piece) {
    longest = std::max(longest, piece.size());
    text += piece;
  });
  CHECK(longest < text.size() / 4);
  CHECK(text == to_stablehlo(module));
  const std::unique_ptr<Module> back = read(text);
  CHECK(bitwise_equal(back->entry()->root()->attrs.literal, array));
}

TEST_CASE("a text that has a mark of the printer's in it is printed with escapes", "[dialects]") {
  Module module("marks");
  Computation* const entry = module.add_computation("main");
  Node* const x = entry->append(Opcode::parameter, Shape(DType::f32, {}), {});
  x->frontend_attributes["mlir.note"] =
      "\"\1"
      "0\1 \1"
      "9 \1\"";
  entry->set_root(x);
  module.set_entry(entry);
  CHECK_THAT(to_stablehlo(module), Catch::Contains("note = \"\\010\\01 \\019 \\01\""));
}

TEST_CASE("tuples in tuples that nothing reads whole are not made", "[dialects]") {
  const auto module = read(R"(
func.func @main(%a: tensor<2xf32>, %b: tensor<i32>) -> tensor<2xf32> {
  %t = stablehlo.tuple %a, %b : tuple<tensor<2xf32>, tensor<i32>>
  %n = stablehlo.tuple %t, %a : tuple<tuple<tensor<2xf32>, tensor<i32>>, tensor<2xf32>>
  %i = stablehlo.get_tuple_element %n[0] : (tuple<tuple<tensor<2xf32>, tensor<i32>>, tensor<2xf32>>) -> tuple<tensor<2xf32>, tensor<i32>>
  %x = stablehlo.get_tuple_element %i[0] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
)");
  const std::string printed = to_stablehlo(*module);
  CHECK(printed.find("tuple") == printed.npos);
  CHECK(to_stablehlo(*read(printed)) == printed);
}

}  // namespace gspmd::stablehlo
