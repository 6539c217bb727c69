#include <catch2/catch.hpp>

#include "gspmd/ir/module.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd {

// As JAX writes them with named shardings: the borders are calls without the dialect's attributes.
TEST_CASE("stablehlo: borders of manual computations that say nothing stay the calls they are",
          "[stablehlo]") {
  const std::string text = R"(
module @jit_f attributes {mhlo.num_partitions = 4 : i32} {
  func.func private @xla.sdy.manual_computation_body.1(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.sine %arg0 : tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
  func.func @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{mesh['x'=4], [{'x'}, {}]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%0) {has_side_effect = true, mhlo.sharding = "{mesh['x'=4], manual}"} : (tensor<8x4xf32>) -> tensor<2x4xf32>
    %2 = call @xla.sdy.manual_computation_body.1(%1) {mhlo.frontend_attributes = {inlineable = "xla_late"}, mhlo.sharding = "{mesh['x'=4], manual}"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%2) {has_side_effect = true, mhlo.sharding = "{mesh['x'=4], [{'x'}, {}]}"} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    return %3 : tensor<8x4xf32>
  }
}
)";
  const std::string printed = to_stablehlo(*parse_stablehlo(text, "given"));
  INFO(printed);
  CHECK(printed.find("@xla.sdy.LocalToGlobalShape") != std::string::npos);
  CHECK(printed.find("sdy.manual_computation(") == std::string::npos);
  CHECK(to_stablehlo(*parse_stablehlo(printed, "printed")) == printed);
}

}  // namespace gspmd
