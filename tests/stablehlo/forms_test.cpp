// Forms that have no field of HLO's own, printed as they are written.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "gspmd/ir/text.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {
namespace {

// Whether the text comes back as it is, also by way of HLO text.
void check_same(const std::string& text) {
  INFO(text);
  const std::unique_ptr<Module> module = parse_stablehlo(text, "forms.mlir");
  verify_module(*module);
  CHECK(to_stablehlo(*module) == text);
  CHECK(to_stablehlo(*parse_module(to_text(*module), "forms.hlo")) == text);
}

std::string module_of(const std::string& function) {
  return "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n" +
         function + "}\n";
}

}  // namespace

TEST_CASE("custom-calls keep their attributes, layouts and aliases", "[forms]") {
  check_same(module_of(
      R"(  func.func public @main(%arg0: tensor<8x4xf32>, %arg1: tensor<f32>, %arg2: tensor<5xi32>) -> (tensor<8x4xf32>, tensor<4xf32>) {
    %0:2 = stablehlo.custom_call @foo(%arg0, %arg1, %arg2) {api_version = 4 : i32, backend_config = {a = 1 : i64, b = "x", c = [1, 2]}, called_computations = [@g], has_side_effect = true, mhlo.frontend_attributes = {q = "r"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>, dense<[0]> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>, #stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 2, operand_tuple_indices = [3, 0]>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]} : (tensor<8x4xf32>, tensor<f32>, tensor<5xi32>) -> (tensor<8x4xf32>, tensor<4xf32>)
    return %0#0, %0#1 : tensor<8x4xf32>, tensor<4xf32>
  }
  func.func private @g(%arg0: tensor<f32>) -> tensor<f32> {
    return %arg0 : tensor<f32>
  }
)"));
}

TEST_CASE("transfers print as the ops they are", "[forms]") {
  check_same(module_of(
      R"(  func.func public @main(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<2xi32>, !stablehlo.token) {
    %0 = stablehlo.create_token : !stablehlo.token
    %1:3 = "stablehlo.infeed"(%0) <{infeed_config = "cfg"}> : (!stablehlo.token) -> (tensor<3x4xf32>, tensor<2xi32>, !stablehlo.token)
    %2 = "stablehlo.outfeed"(%1#0, %1#1, %1#2) <{outfeed_config = "a \22b\22"}> {mhlo.frontend_attributes = {k = "v"}} : (tensor<3x4xf32>, tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
    %3 = "stablehlo.send"(%arg0, %2) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> {mhlo.frontend_attributes = {_xla_host_transfer_rendezvous = "r"}} : (tensor<3x4xf32>, !stablehlo.token) -> !stablehlo.token
    %4:3 = "stablehlo.recv"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (!stablehlo.token) -> (tensor<3x4xf32>, tensor<2xi32>, !stablehlo.token)
    %5 = "stablehlo.send"(%arg0, %4#1, %4#2) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, is_host_transfer = false}> : (tensor<3x4xf32>, tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
    %6:2 = "stablehlo.recv"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 8, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<3x4xf32>, !stablehlo.token)
    %7 = stablehlo.after_all %6#1, %0 : !stablehlo.token
    return %6#0, %4#1, %7 : tensor<3x4xf32>, tensor<2xi32>, !stablehlo.token
  }
)"));
}

TEST_CASE("what runs beside other ops keeps its region", "[forms]") {
  check_same(module_of(
      R"(  func.func public @main(%arg0: tensor<8x4xf32>, %arg1: tensor<2xf32>) -> (tensor<8x4xf32>, tensor<2xf32>) {
    %0 = "stablehlo.async_start"(%arg0) ({
    ^bb0(%arg2: tensor<8x4xf32>):
      %1 = "stablehlo.all_gather"(%arg2) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0]]> : tensor<1x1xi64>, use_global_device_ids}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
      stablehlo.return %1 : tensor<8x4xf32>
    }) : (tensor<8x4xf32>) -> !stablehlo.future<tensor<8x4xf32>>
    %1 = stablehlo.negate %arg1 : tensor<2xf32>
    %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<8x4xf32>>) -> tensor<8x4xf32>
    return %2, %1 : tensor<8x4xf32>, tensor<2xf32>
  }
)"));
}

TEST_CASE("attributes of arguments and results, composites and collectives stay", "[forms]") {
  check_same(
      R"(module @jit_f attributes {jax.uses_shape_polymorphism = false, mhlo.frontend_attributes = {a = "b"}, mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(%arg0: tensor<8x4xf32> {mhlo.layout_mode = "default", mhlo.memory_kind = "device", tf.aliasing_output = 0 : i32}, %arg1: tensor<8x4xf32> {jax.arg_info = "args[1]", jax.buffer_donor = true}) -> (tensor<8x4xf32> {jax.result_info = "result[0]", mhlo.layout_mode = "{1,0}"}, tensor<8x4xf32> {jax.result_info = "result['w']"}) {
    %0 = "stablehlo.collective_permute"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.composite "my.op" %0, %arg1 {composite_attributes = {axes = dense<[0, 1]> : tensor<2xi64>, k = 3 : i64, name = "n"}, decomposition = @impl, version = 2 : i32} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1, %0 : tensor<8x4xf32>, tensor<8x4xf32>
  }
  func.func private @impl(%arg0: tensor<8x4xf32>, %arg1: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
)");
}

TEST_CASE("functions keep their names beside computations of regions", "[forms]") {
  check_same(module_of(
      R"(  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.compare GT, %arg1, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %2 = stablehlo.compare LT, %arg3, %arg4, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = func.call @compare.1(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @compare.1(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = func.call @compare(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @compare(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
)"));
}

TEST_CASE("reductions that apply one op share its computation", "[forms]") {
  const std::unique_ptr<Module> module = parse_stablehlo(
      R"(func.func @main(%a: tensor<4xf32>, %i: tensor<f32>, %b: tensor<4xi32>, %j: tensor<i32>) -> (tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) {
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.reduce(%b init: %j) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
  %3 = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %2, %3 : tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>
}
)",
      "forms.mlir");
  CHECK(module->computations().size() == 4);  // two adders, a maximum, the entry
}

TEST_CASE("sizes of a type may stand apart", "[forms]") {
  const auto text = [](const std::string& type) {
    return module_of(
        fmt::format("  func.func public @main(%arg0: {0}) -> {0} {{\n"
                    "    return %arg0 : {0}\n  }}\n",
                    type));
  };
  for (const char* type : {"tensor<2 x3xf32>", "tensor<2x 3 xf32>", "tensor< 2 x\n3 x f32 >"})
    CHECK(to_stablehlo(*parse_stablehlo(text(type), "forms.mlir")) == text("tensor<2x3xf32>"));
  CHECK_THROWS_WITH(parse_stablehlo(text("tensor<2 3xf32>"), "forms.mlir"),
                    Catch::Contains("expected \"x\" behind a size"));
}

TEST_CASE("a precision that is no word is refused", "[forms]") {
  CHECK_THROWS_WITH(parse_stablehlo(R"(func.func @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0], precision = [!stablehlo<precision DEFAULT>, DEFAULT] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
)",
                                    "forms.mlir"),
                    Catch::Contains("precision_config is a list of DEFAULT, HIGH, HIGHEST"));
}

}  // namespace gspmd::stablehlo
