func.func @main(%a: tensor<6x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"y"}p1]>}, %b: tensor<6x10xf32>) -> (tensor<6x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}p2], replicated={"z"}>}) {
  %0 = stablehlo.add %a, %b : tensor<6x10xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"x":(1)2, ?}, {?}]> {mhlo.sharding = "{devices=[2,1]<=[2]}"} : tensor<6x10xf32>
  %2 = chlo.acos %1 {sdy.sharding = #sdy.sharding<[<@mesh, [{?}, {?}], replicated={"z"}>]>} : tensor<6x10xf32>
  %3 = sdy.sharding_constraint %2 <@ômesh, [{}, {}]> {mhlo.frontend_attributes = {sdy.sharding = "host"}} : tensor<6x10xf32>
  return %3 : tensor<6x10xf32>
}
