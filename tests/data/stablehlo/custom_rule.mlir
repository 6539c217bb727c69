sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {"y"}]>}) -> tensor<4x8xf32> {
  %0 = stablehlo.custom_call @my_norm(%a) {api_version = 4 : i32, backend_config = {eps = 1.000000e-06 : f32}, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=4, j=8, k=6} reduction={k} need_replication={j}, custom>} : (tensor<4x8x6xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
