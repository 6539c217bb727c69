// A @main that is long enough to be read ahead by a thread of its own.
#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo::reading_ahead_test {
namespace {

constexpr int kOps = 6000;  // of about 100 characters

// Ops by number, one a line from line 4 on, that stand instead of negations.
std::string text_with(const std::map<int, std::string>& others) {
  std::string text =
      "#near = loc(\"layer\")\nmodule @m attributes {mhlo.num_partitions = 1 : i32} {\n"
      "  func.func public @main(%v0: tensor<4xf32>) -> tensor<4xf32> {\n";
  for (int i = 0; i < kOps; ++i) {
    const auto other = others.find(i);
    text += other != others.end()
                ? fmt::format("    {}\n", other->second)
                : fmt::format(
                      "    %v{} = stablehlo.negate %v{} {{mhlo.frontend_attributes = {{n = "
                      "\"{}\"}}}} : tensor<4xf32> loc(#near)\n",
                      i + 1, i, i);
  }
  return text + fmt::format("    return %v{} : tensor<4xf32>\n  }}\n}}\n", kOps);
}

std::string error_of(const std::string& text) {
  try {
    parse_stablehlo(text, "long.mlir");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a long @main is read ahead into the same ops", "[ahead]") {
  const auto module = parse_stablehlo(text_with({}), "long.mlir");
  const auto& nodes = module->entry()->nodes();
  REQUIRE(std::ssize(nodes) == kOps + 1);
  for (int i = 0; i < kOps; ++i) {
    const Node& node = *nodes[static_cast<size_t>(i + 1)];
    if (!node.is(Opcode::negate) || node.operand(0) != nodes[static_cast<size_t>(i)].get() ||
        node.frontend_attributes.get().at("n") != std::to_string(i) ||
        node.metadata.text.line != i + 4)
      FAIL("op " << i << " is " << node.name());
  }
  CHECK(module->entry()->root() == nodes.back().get());
}

TEST_CASE("the first mistake of a long @main is told, whoever finds it", "[ahead]") {
  const std::string shapes = "%v1001 = stablehlo.add %v1000, %v0 : tensor<5xf32>";
  const std::string syntax = "%v1005 = stablehlo.negate %v1004 tensor<4xf32>";
  const std::string name = "%v5501 = stablehlo.negate %nowhere : tensor<4xf32>";
  CHECK_THAT(error_of(text_with({{1000, shapes}})), Catch::StartsWith("long.mlir:1004:"));
  CHECK_THAT(error_of(text_with({{5500, name}})),
             Catch::StartsWith("long.mlir:5504:") && Catch::Contains("%nowhere"));
  // A text that cannot be read has no ops to look at: MLIR tells of it first too.
  CHECK_THAT(error_of(text_with({{1000, shapes}, {1004, syntax}})),
             Catch::StartsWith("long.mlir:100"));
  CHECK_THAT(error_of(text_with({{1004, syntax}})), Catch::StartsWith("long.mlir:1008:"));
  for (int attempt = 0; attempt < 20; ++attempt)
    CHECK(error_of(text_with({{attempt, "%x = stablehlo.nothing"}})) != "");
}

}  // namespace gspmd::stablehlo::reading_ahead_test
