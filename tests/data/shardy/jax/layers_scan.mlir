module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg1: tensor<6x16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, %arg2: tensor<6x64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}) -> (tensor<8x16xf32> {jax.result_info = "result[0]"}, tensor<6x8xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:5 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %arg2, %iterArg_1 = %c, %iterArg_2 = %arg0, %iterArg_3 = %0) : tensor<6x16x64xf32>, tensor<6x64x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<6x8xf32>
     cond {
      %c_4 = stablehlo.constant dense<6> : tensor<i32>
      %2 = stablehlo.compare  LT, %iterArg_1, %c_4,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %2 = stablehlo.dynamic_slice %iterArg, %iterArg_1, %c_4, %c_4, sizes = [1, 16, 64] : (tensor<6x16x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x64xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x16x64xf32>) -> tensor<16x64xf32>
      %4 = stablehlo.dynamic_slice %iterArg_0, %iterArg_1, %c_4, %c_4, sizes = [1, 64, 16] : (tensor<6x64x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x16xf32>
      %5 = stablehlo.reshape %4 : (tensor<1x64x16xf32>) -> tensor<64x16xf32>
      %6:2 = func.call @closed_call(%iterArg_2, %3, %5) : (tensor<8x16xf32>, tensor<16x64xf32>, tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>)
      %7 = stablehlo.broadcast_in_dim %6#1, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
      %8 = stablehlo.dynamic_update_slice %iterArg_3, %7, %iterArg_1, %c_4 : (tensor<6x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<6x8xf32>
      %c_5 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.add %iterArg_1, %c_5 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_0, %9, %6#0, %8 : tensor<6x16x64xf32>, tensor<6x64x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<6x8xf32>
    }
    return %1#3, %1#4 : tensor<8x16xf32>, tensor<6x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<8x16xf32>, %arg1: tensor<16x64xf32>, %arg2: tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %1 = stablehlo.tanh %0 : tensor<8x64xf32>
    %2 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %3 = stablehlo.add %arg0, %2 : tensor<8x16xf32>
    %4 = sdy.sharding_constraint %3 <@mesh, [{"data"}, {}]> : tensor<8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    return %4, %5 : tensor<8x16xf32>, tensor<8xf32>
  }
}
