// What HLO text carries of Shardy is free text: printed as the dialect's ops where it is what their
// forms have a place for, else kept as it is.
#include <catch2/catch.hpp>

#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/shardy/propagate_shardy.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd {
namespace {

// A call of `target` with these attributes, of a value and into one of its own shape.
std::string call_text(const std::string& target, const std::string& attributes) {
  return "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = "
         "#sdy.mesh<[\"x\"=4]>}}\n"
         "ENTRY e {\n  a = f32[8,4] parameter(0)\n"
         "  ROOT b = f32[8,4] custom-call(a), custom_call_target=\"" +
         target + "\", frontend_attributes={" + attributes + "}\n}\n";
}

std::string attribute(const std::string& name, const std::string& value) {
  std::string text = name + "=\"";
  for (const char c : value) text += c == '"' ? std::string("\\\"") : std::string(1, c);
  return text + "\"";
}

// The text, read back and printed again; the frontend attributes are those of the module read.
std::string printed(const std::string& hlo) {
  const auto module = parse_module(hlo);
  std::string text = to_stablehlo(*module);
  INFO(text);
  const auto again = parse_stablehlo(text, "printed");
  CHECK(to_stablehlo(*again) == text);
  const std::map<std::string, std::string> kept = again->entry()->root()->frontend_attributes;
  const std::map<std::string, std::string> given = module->entry()->root()->frontend_attributes;
  CHECK(kept == given);
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kGood = "#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>";

}  // namespace

TEST_CASE("stablehlo: attributes of Shardy are printed as its ops where they have the form",
          "[stablehlo]") {
  CHECK(contains(printed(call_text("Sharding", attribute("xla.sdy.sharding", kGood))),
                 "sdy.sharding_constraint %arg0 <@mesh, [{\"x\"}, {}]>"));
  CHECK(contains(
      printed(call_text("Sharding", attribute("xla.sdy.sharding", kGood) + "," +
                                        attribute("sdy.collective", "all_gather") + "," +
                                        attribute("sdy.collective_parameters", "[{\"x\"}, {}]"))),
      "sdy.all_gather [{\"x\"}, {}] %arg0 out_sharding=<@mesh, [{\"x\"}, {}]>"));
  CHECK(contains(printed(call_text("sdy.DataFlowEdge", attribute("sdy.sharding", kGood))),
                 "sdy.data_flow_edge %arg0 sharding=<@mesh, [{\"x\"}, {}]>"));
}

TEST_CASE("stablehlo: attributes of Shardy that have not its form stay as they are",
          "[stablehlo]") {
  const std::string sharding =
      GENERATE("", "x", "<", "#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]",
               "#sdy.sharding_per_value<[<@mesh, [{\"x\"}], {}]>]>",
               "#sdy.sharding_per_value<[<@mesh, []>, <@mesh, []>]>", "#sdy.sharding<@mesh, []>>",
               "#sdy.sharding_per_value<[<@mesh, []>]> ->", "#sdy.sharding_per_value<[<\"]>");
  CAPTURE(sharding);
  const std::string own = attribute("xla.sdy.sharding", sharding);
  CHECK(contains(printed(call_text("Sharding", own)), "stablehlo.custom_call @Sharding"));
  CHECK(contains(printed(call_text("Sharding", own + "," + attribute("sdy.reshard", "true"))),
                 "stablehlo.custom_call @Sharding"));
  const std::string edge =
      printed(call_text("sdy.DataFlowEdge", attribute("sdy.sharding", sharding)));
  CHECK(contains(edge, "sdy.data_flow_edge %arg0 {"));
  const std::string rule =
      printed(call_text("f", attribute("xla.sdy.sharding_rule", sharding + "]")));
  CHECK(contains(rule, "mhlo.frontend_attributes = {xla.sdy.sharding_rule = "));
}

TEST_CASE("stablehlo: collectives of Shardy with other names or parameters stay calls",
          "[stablehlo]") {
  const std::string sharding = attribute("xla.sdy.sharding", kGood) + ",";
  for (const std::string& other :
       {attribute("sdy.collective", "all_gather_twice"),
        attribute("sdy.collective", "all_gather") + "," +
            attribute("sdy.collective_parameters", "[{\"x\"}, {}"),
        attribute("sdy.collective", "all_reduce") + "," +
            attribute("sdy.collective_parameters", "most {\"x\"}"),
        attribute("sdy.collective", "all_reduce") + "," +
            attribute("sdy.collective_parameters", "sum {\"x\"} {\"y\"}")})
    CHECK(contains(printed(call_text("Sharding", sharding + other)),
                   "stablehlo.custom_call @Sharding"));
}

TEST_CASE("stablehlo: groups without a number and comments inside attributes", "[stablehlo]") {
  const auto group = [](const std::string& id) {
    return "HloModule m, num_partitions=4\nENTRY e {\n  a = f32[8,4] parameter(0)\n"
           "  g = () custom-call(a), custom_call_target=\"xla.sdy.ShardingGroup\", "
           "custom_call_has_side_effect=true, frontend_attributes={" +
           attribute("xla.sdy.sharding_group_id", id) + "}\n  ROOT b = f32[8,4] negate(a)\n}\n";
  };
  CHECK(contains(printed(group("7 : i64")), "sdy.sharding_group %arg0 group_id=7"));
  for (const char* id : {"", "seven", "7x", "99999999999999999999 : i64"})
    CHECK(contains(printed(group(id)), "@xla.sdy.ShardingGroup"));
  const auto module = parse_stablehlo(R"(
module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, // rows >
      {}]> : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
)",
                                      "given");
  CHECK(contains(to_stablehlo(*module), "sdy.sharding_constraint %arg0 <@mesh, [{\"x\"}, {}]>"));
}

// With named shardings alone: constraints before a border say what enters it, and reducers have
// some of their own.
TEST_CASE("stablehlo: completed manual computations of named shardings print as a fixed point",
          "[stablehlo]") {
  const std::string text = R"(
module @m attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func private @xla.sdy.manual_computation_body.2(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{mesh['x'=2,'y'=4], [{'x'}, {?}]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %5 = stablehlo.add %arg2, %arg3 : tensor<f32>
      %6 = stablehlo.custom_call @Sharding(%5) {mhlo.sharding = "{mesh['x'=2,'y'=4], replicated}"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %2 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{mesh['x'=2,'y'=4], [{?}, {'y', ?}]}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %4 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%2) {has_side_effect = true, mhlo.sharding = "{mesh['x'=2,'y'=4], [{?}, {?}], manual={'y'}}"} : (tensor<8x16xf32>) -> tensor<8x4xf32>
    %7 = call @xla.sdy.manual_computation_body.2(%4) {mhlo.frontend_attributes = {inlineable = "xla_late"}, mhlo.sharding = "{mesh['x'=2,'y'=4], [{?}, {?}], manual={'y'}}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %8 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%7) {has_side_effect = true, mhlo.sharding = "{mesh['x'=2,'y'=4], [{?}, {'y', ?}]}"} : (tensor<8x4xf32>) -> tensor<8x16xf32>
    return %8 : tensor<8x16xf32>
  }
}
)";
  const auto module = parse_stablehlo(text, "given");
  PropagateOptions options;
  options.strategy = Strategy::shardy;
  propagate(*module, options);
  keep_sdy_only(*module);
  const std::string completed = to_stablehlo(*module);
  INFO(completed);
  CHECK(contains(completed, "sdy.manual_computation(%arg0)"));
  CHECK(!contains(completed, "@Sharding"));  // that before the border, that in the reducer
  CHECK(to_stablehlo(*parse_stablehlo(completed, "printed")) == completed);
}

// Targets and functions are named apart: neither calls the other.
TEST_CASE("stablehlo: a custom call whose target has the name of the function around it",
          "[stablehlo]") {
  const std::string call =
      GENERATE("stablehlo.custom_call @f(%arg0) : (tensor<4xf32>) -> tensor<4xf32>",
               "\"stablehlo.custom_call\"(%arg0) <{call_target_name = \"f\"}> : (tensor<4xf32>) -> "
               "tensor<4xf32>",
               "\"stablehlo.custom_call\"(%arg0) <{call_target_name = @f}> : (tensor<4xf32>) -> "
               "tensor<4xf32>");
  const auto function = [&](const std::string& head) {
    return "  func.func " + head + "(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n    %0 = " + call +
           "\n    return %0 : tensor<4xf32>\n  }\n";
  };
  const std::string text =
      "module @m {\n" + function("private @g") + function("private @f") + function("@main") + "}\n";
  const std::string printed = to_stablehlo(*parse_stablehlo(text, "given"));
  INFO(printed);
  CHECK(printed.find("private @g(") < printed.find("private @f("));
  CHECK(to_stablehlo(*parse_stablehlo(printed, "printed")) == printed);
}

TEST_CASE("stablehlo: what HLO says of results and composites is printed where it is an attribute",
          "[stablehlo]") {
  const auto module_text = [](const std::string& value) {
    return "HloModule m, frontend_attributes={" +
           attribute("mlir.result.e.0.jax.result_info", value) + "," +
           attribute("mlir.result.other.0.x", "1 : i32") + "," +
           attribute("mlir.result.e.1.x", "1 : i32") + "," + attribute("mlir.result.e.0.", "unit") +
           "}\nENTRY e {\n  ROOT a = f32[8] parameter(0)\n}\n";
  };
  for (const std::string value :
       {"\"ok\"", "unit", "3 : i32", "no attribute", "]", "\"open", "{a = 1"}) {
    CAPTURE(value);
    const auto module = parse_module(module_text(value));
    const std::string text = to_stablehlo(*module);
    INFO(text);
    const bool is_attribute = value == "unit" || value == "\"ok\"" || value == "3 : i32";
    CHECK(contains(text, "-> (tensor<8xf32> {jax.result_info") == is_attribute);
    const auto again = parse_stablehlo(text, "printed");
    CHECK(again->frontend_attributes == module->frontend_attributes);
    CHECK(to_stablehlo(*again) == text);
  }
  const auto call = [](const std::string& attributes, const std::string& version) {
    return "HloModule m\nf {\n  ROOT a = f32[8] parameter(0)\n}\nENTRY e {\n  a = f32[8] "
           "parameter(0)\n"
           "  ROOT c = f32[8] call(a), to_apply=f, is_composite=true, frontend_attributes={" +
           attribute("composite.name", "a.b") + "," +
           attribute("composite.attributes", attributes) + "," +
           attribute("composite.version", version) + "}\n}\n";
  };
  CHECK(contains(printed(call("{k = 1 : i64}", "2")), "stablehlo.composite \"a.b\""));
  CHECK(contains(printed(call("{}", "0")), "stablehlo.composite \"a.b\""));
  for (const std::string attributes : {"}{", "[1]", "{k = }", "", "{} {}"})
    CHECK(contains(printed(call(attributes, "0")), "call @f("));
  for (const std::string version : {"", "x", "1 : i32", "99999999999", "-"})
    CHECK(contains(printed(call("{}", version)), "call @f("));
}

// Attributes of the text that stand for something else are not what HLO has under their names.
TEST_CASE(
    "stablehlo: frontend attributes named like other attributes of the text stay what they are",
    "[stablehlo]") {
  const std::string value =
      GENERATE("host", "1 : i32", "#sdy.sharding<@mesh, [{}, {}]>", "\"{replicated}\"");
  for (const char* name :
       {"sdy.sharding", "xla.sdy.sharding_rule", "mlir.sdy.sharding", "mlir.sdy.sharding_rule",
        "mlir.mhlo.sharding", "mlir.mhlo.frontend_attributes", "mlir.mhlo.version",
        "mlir.sdy.sharding_origins", "mlir.foo"}) {
    CAPTURE(name, value);
    printed(
        call_text("Sharding", attribute("xla.sdy.sharding", kGood) + "," + attribute(name, value)));
    printed(call_text("f", attribute(name, value)));
    const auto module =
        parse_module("HloModule m, frontend_attributes={" + attribute(name, value) +
                     "}\nENTRY e {\n" + "  ROOT a = f32[8,4] parameter(0), frontend_attributes={" +
                     attribute(name, value) + "}\n}\n");
    const std::string text = to_stablehlo(*module);
    INFO(text);
    const auto again = parse_stablehlo(text, "printed");
    CHECK(again->frontend_attributes == module->frontend_attributes);
    CHECK(*again->entry()->root()->frontend_attributes ==
          *module->entry()->root()->frontend_attributes);
  }
}

}  // namespace gspmd
