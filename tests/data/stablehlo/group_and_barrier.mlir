sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>, %c: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  sdy.sharding_group %a group_id=3 : tensor<8xf32>
  sdy.sharding_group %b group_id=3 : tensor<8xf32>
  %0 = sdy.propagation_barrier %c allowed_direction=FORWARD : tensor<8xf32>
  %1 = stablehlo.multiply %0, %a : tensor<8xf32>
  return %1, %b : tensor<8xf32>, tensor<8xf32>
}
