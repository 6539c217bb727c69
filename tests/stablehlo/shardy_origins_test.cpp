// Where shardings that Shardy's rules completed came from.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/explain/sharding_sources.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd {
namespace {

// "node: dim 0 (2,4) of x via y", in order of the text, of nodes with a name given.
std::vector<std::string> origins(const Module& module, const std::vector<std::string>& names) {
  std::vector<std::string> list;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (std::find(names.begin(), names.end(), node->name()) == names.end()) continue;
      for (const Origin& o : node->origins)
        list.push_back(fmt::format("{}: dim {} ({},{}) of {}{}", node->name(), o.dim, o.digit.size,
                                   o.digit.stride, o.annotation,
                                   o.via.empty() ? "" : " via " + o.via));
    }
  return list;
}

PropagateOptions with_origins() {
  PropagateOptions options;
  options.shardy.origins = true;
  return options;
}

}  // namespace

TEST_CASE("shardy: each axis names the value that it was taken from, and the annotation",
          "[shardy]") {
  const auto module = parse_stablehlo(R"(
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<8x32xf32> {
  %dot = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %tanh = stablehlo.tanh %dot : tensor<8x32xf32>
  return %tanh : tensor<8x32xf32>
}
)",
                                      "origins.mlir");
  REQUIRE(propagate(*module, with_origins()));
  CHECK(origins(*module, {"a", "b", "dot", "tanh"}) ==
        std::vector<std::string>{"a: dim 0 (2,4) of a", "b: dim 1 (4,1) of b",
                                 "dot: dim 0 (2,4) of a via a", "dot: dim 1 (4,1) of b via b",
                                 "tanh: dim 0 (2,4) of a via dot",
                                 "tanh: dim 1 (4,1) of b via dot"});
}

TEST_CASE("shardy: what flows back from a constraint says so; loops pass it on", "[shardy]") {
  const auto module = parse_stablehlo(R"(
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c, %v = %a) : tensor<i32>, tensor<8x16xf32> cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.negate %v : tensor<8x16xf32>
    stablehlo.return %j, %w : tensor<i32>, tensor<8x16xf32>
  }
  %k = sdy.sharding_constraint %0#1 <@mesh, [{"x", ?}, {?}]> : tensor<8x16xf32>
  return %k : tensor<8x16xf32>
}
)",
                                      "origins.mlir");
  REQUIRE(propagate(*module, with_origins()));
  const auto all = origins(*module, {"a", "negate"});
  REQUIRE(all.size() == 2);
  for (const std::string& origin : all)
    CHECK_THAT(origin, Catch::Contains("dim 0 (2,4) of custom-call via"));
}

TEST_CASE("shardy: without an annotation what came from it is gone", "[shardy]") {
  const auto given = parse_stablehlo(R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  %add = stablehlo.add %a, %b : tensor<8xf32>
  return %add : tensor<8xf32>
}
)",
                                     "origins.mlir");
  const auto completed = given->clone();
  REQUIRE(propagate(*completed, with_origins()));
  const ShardingSources sources(*given, *completed, {.propagate = with_origins()});
  int64_t seen = 0;
  for (const auto& node : completed->entry()->nodes())
    for (size_t i = 0; i < node->origins.size(); ++i, ++seen) {
      CHECK(sources.annotations(*node, i) == std::vector<std::string>{"a"});
      CHECK(sources.seen(*node, i));
    }
  CHECK(seen == 4);  // a, b, the sum and the result
}

TEST_CASE("shardy: origins are recorded where they are asked for only", "[shardy]") {
  const auto module = parse_stablehlo(R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %add = stablehlo.add %a, %a : tensor<8xf32>
  return %add : tensor<8xf32>
}
)",
                                      "origins.mlir");
  REQUIRE(propagate(*module));
  for (const auto& node : module->entry()->nodes()) CHECK(node->origins.empty());
}

}  // namespace gspmd
