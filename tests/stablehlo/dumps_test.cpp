// Modules as exporters, StableHLO's interpreter and Shardy write them, with odd syntax:
// tests/data/dumps/modules.mlir. Each begins with "// ok: what it has" or "// error: the message".
#include <catch2/catch.hpp>
#include <fstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/print.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/shardy/propagate_shardy.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo::dumps_test {
namespace {

std::unique_ptr<Module> read(const std::string& text) {
  auto module = parse_stablehlo(text, "dumps.mlir");
  verify_module(*module);
  return module;
}

std::vector<std::string> modules_of_file() {
  std::ifstream file(GSPMD_SOURCE_DIR "/tests/data/dumps/modules.mlir");
  std::vector<std::string> modules(1);
  for (std::string line; std::getline(file, line);) {
    if (line == "// -----")
      modules.emplace_back();
    else
      modules.back() += line + "\n";
  }
  return modules;
}

}  // namespace

TEST_CASE("modules of exporters are fixed points in both languages, or refused with their place",
          "[dumps]") {
  const std::vector<std::string> modules = modules_of_file();
  REQUIRE(modules.size() > 60);
  for (const std::string& text : modules) {
    const std::string head = text.substr(0, text.find('\n'));
    CAPTURE(head);
    if (head.starts_with("// error: ")) {
      try {
        propagate(*read(text), {});
        FAIL_CHECK("it is not refused");
      } catch (const UserError& error) {
        CHECK_THAT(error.what(),
                   Catch::Contains("dumps.mlir:") && Catch::Contains(head.substr(10)));
      }
      continue;
    }
    REQUIRE(head.starts_with("// ok: "));
    const auto module = read(text);
    const std::string printed = to_stablehlo(*module);
    CHECK(to_stablehlo(*read(printed)) == printed);
    CHECK(to_stablehlo(*parse_module(to_text(*module))) == printed);
    propagate(*module, {});
    CHECK_NOTHROW(verify_module(*module));
  }
}

TEST_CASE("a manual computation inside another one is taken out with its borders", "[dumps]") {
  const auto module = read(R"(
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%y: tensor<4x8xf32>) {
    %1 = sdy.manual_computation(%y) in_shardings=[<@mesh, [{}, {"b"}]>] out_shardings=[<@mesh, [{}, {"b"}]>] manual_axes={"b"} (%z: tensor<4x4xf32>) {
      %2 = stablehlo.multiply %z, %z : tensor<4x4xf32>
      sdy.return %2 : tensor<4x4xf32>
    } : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
)");
  propagate(*module, {});
  lower_sdy(*module);
  verify_module(*module);
  CHECK(module->computations().size() == 1);
  const std::string text = to_text(*module);
  CHECK_THAT(text,
             Catch::Contains("f32[4,4] multiply(") && !Catch::Contains("manual_computation_body"));
}

TEST_CASE("aliases that stand for very much are refused, or read in part", "[dumps]") {
  const auto bomb = [](const std::string& first, const std::string& sign, const std::string& open,
                       const std::string& close) {
    std::string text = sign + "0 = " + first + "\n";
    for (int i = 1; i < 30; ++i) {
      const std::string inner = sign + std::to_string(i - 1);
      text += fmt::format("{}{} = {}{}, {}, {}, {}{}\n", sign, i, open, inner, inner, inner, inner,
                          close);
    }
    return text;
  };
  const std::string main =
      "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n%r = stablehlo.negate %a";
  const std::string end = " : tensor<f32>\nreturn %r : tensor<f32>\n}\n";
  CHECK_THROWS_WITH(read(bomb("[1]", "#a", "[", "]") + main + " {x = #a29}" + end),
                    Catch::Contains("an alias stands for more than"));
  CHECK_THROWS_WITH(read(bomb("tensor<f32>", "!a", "tuple<", ">") +
                         "func.func @main(%a: !a29) -> !a29 {\nreturn %a : !a29\n}\n"),
                    Catch::Contains("a tuple of more than"));
  const auto module = read(bomb("loc(\"x\")", "#loc", "loc(fused[", "])") + main +
                           " : tensor<f32> loc(#loc29)\nreturn %r : tensor<f32>\n}\n");
  CHECK_THAT(*module->entry()->root()->metadata.op_name, Catch::StartsWith("x;x;x"));
}

TEST_CASE("keys of kept dictionaries that are no bare words stay quoted", "[dumps]") {
  const auto module = read(R"(
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.negate %a {note = {"a b" = "{c}", d.e = 1 : i64, "7" = [{"\22" = 2 : i64}]}} : tensor<f32>
  return %0 : tensor<f32>
}
)");
  const std::string printed = to_stablehlo(*module);
  CHECK_THAT(printed, Catch::Contains("{\"a b\" = \"{c}\", d.e = 1 : i64, \"7\" = [{\"\\22\" = "
                                      "2 : i64}]}"));
  CHECK(to_stablehlo(*read(printed)) == printed);
}

TEST_CASE("a large literal of HLO text is printed in pieces that make up the text", "[dumps]") {
  Module module("large");
  Computation* const entry = module.add_computation("main");
  Attributes attrs;
  attrs.literal = Array(Shape(DType::f32, {1000, 1000}));
  entry->set_root(entry->append(Opcode::constant, attrs.literal.shape(), {}, attrs));
  module.set_entry(entry);
  std::string text;
  size_t longest = 0;
  print_module(module, [&](std::string_view piece) {
    longest = std::max(longest, piece.size());
    text += piece;
  });
  CHECK(text == to_text(module));
  CHECK(longest < text.size() / 2);
}

}  // namespace gspmd::stablehlo::dumps_test
