module @jit_block attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%arg0: tensor<4x8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>} loc("x"), %arg1: tensor<16xf32> loc("params['ln']['scale']"), %arg2: tensor<16x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>} loc("params['wq']"), %arg3: tensor<16x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>} loc("params['wk']"), %arg4: tensor<16x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>} loc("params['wv']"), %arg5: tensor<4x8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}, {}]>} loc("params['wo']"), %arg6: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['w1']"), %arg7: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("params['w2']")) -> (tensor<4x8x16xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
    %0 = call @rms_norm(%arg0, %arg1) : (tensor<4x8x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32> loc(#loc5)
    %1 = stablehlo.dot_general %0, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x4x8xf32>) -> tensor<4x8x4x8xf32> loc(#loc6)
    %2 = stablehlo.dot_general %0, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x4x8xf32>) -> tensor<4x8x4x8xf32> loc(#loc6)
    %3 = stablehlo.dot_general %0, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x4x8xf32>) -> tensor<4x8x4x8xf32> loc(#loc6)
    %4 = stablehlo.dot_general %1, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x4x8xf32>, tensor<4x8x4x8xf32>) -> tensor<4x4x8x8xf32> loc(#loc7)
    %5 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %6 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %7 = stablehlo.compare  GE, %5, %6,  SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<4x4x8x8xi1>
    %cst = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x8x8xf32>
    %10 = stablehlo.select %8, %4, %9 : tensor<4x4x8x8xi1>, tensor<4x4x8x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4x4x8xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<4x4x8xf32>) -> tensor<4x4x8x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<4x4x8x1xf32>) -> tensor<4x4x8x8xf32>
    %14 = stablehlo.subtract %10, %13 : tensor<4x4x8x8xf32>
    %15 = stablehlo.exponential %14 : tensor<4x4x8x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_1) applies stablehlo.add across dimensions = [3] : (tensor<4x4x8x8xf32>, tensor<f32>) -> tensor<4x4x8xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<4x4x8xf32>) -> tensor<4x4x8x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<4x4x8x1xf32>) -> tensor<4x4x8x8xf32>
    %19 = stablehlo.divide %15, %18 : tensor<4x4x8x8xf32>
    %20 = stablehlo.dot_general %19, %3, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x8x8xf32>, tensor<4x8x4x8xf32>) -> tensor<4x4x8x8xf32>
    %21 = stablehlo.transpose %20, dims = [0, 2, 1, 3] : (tensor<4x4x8x8xf32>) -> tensor<4x8x4x8xf32>
    %22 = stablehlo.dot_general %21, %arg5, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32> loc(#loc8)
    %23 = stablehlo.add %arg0, %22 : tensor<4x8x16xf32>
    %24 = sdy.sharding_constraint %23 <@mesh, [{"data"}, {}, {}]> : tensor<4x8x16xf32>
    %25 = call @rms_norm(%24, %arg1) : (tensor<4x8x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %26 = stablehlo.dot_general %25, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x64xf32>) -> tensor<4x8x64xf32>
    %27 = call @relu(%26) : (tensor<4x8x64xf32>) -> tensor<4x8x64xf32>
    %28 = stablehlo.dot_general %27, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x64xf32>, tensor<64x16xf32>) -> tensor<4x8x16xf32> loc(#loc9)
    %29 = stablehlo.add %24, %28 : tensor<4x8x16xf32>
    return %29 : tensor<4x8x16xf32>
  }
  func.func private @rms_norm(%arg0: tensor<4x8x16xf32>, %arg1: tensor<16xf32>) -> tensor<4x8x16xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<4x8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<4x8x1xf32>
    %5 = stablehlo.rsqrt %4 : tensor<4x8x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    %7 = stablehlo.multiply %arg0, %6 : tensor<4x8x16xf32>
    %8 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<4x8x16xf32>
    %10 = stablehlo.multiply %7, %9 : tensor<4x8x16xf32>
    return %10 : tensor<4x8x16xf32>
  }
  func.func private @relu(%arg0: tensor<4x8x64xf32>) -> tensor<4x8x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x8x64xf32>
    return %1 : tensor<4x8x64xf32>
  }
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("block.py":10:6 to :30)
#loc2 = loc("block.py":12:6 to :30)
#loc3 = loc("block.py":20:6 to :30)
#loc4 = loc("block.py":30:6 to :30)
#loc5 = loc("jit(block)/rms_norm"(#loc1))
#loc6 = loc("jit(block)/bsd,dhk->bshk/dot_general"(#loc2))
#loc7 = loc("jit(block)/bshk,bthk->bhst/dot_general"(#loc2))
#loc8 = loc("jit(block)/bshk,hkd->bsd/dot_general"(#loc3))
#loc9 = loc("jit(block)/bsf,fd->bsd/dot_general"(#loc4))
