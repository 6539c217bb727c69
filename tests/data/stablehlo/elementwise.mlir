module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc("x"), %arg1: tensor<4xf32> loc("b")) -> (tensor<8x4xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.add %arg0, %1 : tensor<8x4xf32> loc(#loc3)
    %3 = stablehlo.compare  GT, %2, %0,  FLOAT : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xi1> loc(#loc2)
    %4 = stablehlo.select %3, %2, %0 : tensor<8x4xi1>, tensor<8x4xf32> loc(#loc2)
    return %4 : tensor<8x4xf32>
  }
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("model.py":10:6 to :11)
#loc2 = loc("jit(f)/select"(#loc1))
#loc3 = loc("add:"("jit(f)/add"(#loc1)))
