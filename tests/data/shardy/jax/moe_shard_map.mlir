module @jit_moe attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "expert"=4]>
  func.func public @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "expert"}, {}]>} loc("x"), %arg1: tensor<4x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"expert"}, {}, {}]>} loc("w1"), %arg2: tensor<4x32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"expert"}, {}, {}]>} loc("w2")) -> (tensor<16x8xf32> {jax.result_info = "result"}, tensor<f32> {jax.result_info = "aux"}) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{"data", "expert"}, {}]>, <@mesh, [{"expert"}, {}, {}]>, <@mesh, [{"expert"}, {}, {}]>] out_shardings=[<@mesh, [{"data", "expert"}, {}]>] manual_axes={"data", "expert"} (%arg3: tensor<2x8xf32>, %arg4: tensor<1x8x32xf32>, %arg5: tensor<1x32x8xf32>) {
      %2 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2] : (tensor<2x8xf32>) -> tensor<4x2x8xf32>
      %3 = "stablehlo.all_to_all"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32> loc(#loc2)
      %4 = stablehlo.reshape %3 : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
      %5 = stablehlo.slice %arg4 [0:1, 0:8, 0:32] : (tensor<1x8x32xf32>) -> tensor<1x8x32xf32>
      %6 = stablehlo.reshape %5 : (tensor<1x8x32xf32>) -> tensor<8x32xf32>
      %7 = stablehlo.dot_general %4, %6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
      %9 = stablehlo.maximum %7, %8 : tensor<8x32xf32>
      %10 = stablehlo.reshape %arg5 : (tensor<1x32x8xf32>) -> tensor<32x8xf32>
      %11 = stablehlo.dot_general %9, %10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
      %12 = stablehlo.reshape %11 : (tensor<8x8xf32>) -> tensor<4x2x8xf32>
      %13 = "stablehlo.all_to_all"(%12) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32> loc(#loc2)
      %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<4x2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
      sdy.return %14 : tensor<2x8xf32>
    } : (tensor<16x8xf32>, tensor<4x8x32xf32>, tensor<4x32x8xf32>) -> tensor<16x8xf32> loc(#loc3)
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32> loc(#loc4)
    return %0, %1 : tensor<16x8xf32>, tensor<f32>
  }
}
#loc1 = loc("moe.py":33:6 to :40)
#loc2 = loc("jit(moe)/shard_map/all_to_all"(#loc1))
#loc3 = loc("jit(moe)/shard_map"(#loc1))
#loc4 = loc("jit(moe)/reduce_sum"(#loc1))
