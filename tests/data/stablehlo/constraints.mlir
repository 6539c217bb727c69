sdy.mesh @mesh = <["x"=4, "y"=2, "z"=2]>
func.func @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"y"}p1]>}, %b: tensor<16x8xf32>) -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}p2], replicated={"z"}>}) {
  %0 = stablehlo.add %a, %b : tensor<16x8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"x":(1)2, ?}, {?}]> : tensor<16x8xf32>
  %2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {?}], replicated={"z"}>]>} : tensor<16x8xf32>
  %3 = sdy.sharding_constraint %2 <@mesh, [{}, {}]> : tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}
