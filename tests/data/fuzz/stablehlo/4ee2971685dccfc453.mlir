module @jit_f attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 8 : i32, mhlo.use_auto_spmd_partitioning = false} {
  func.func private @region_1.2(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @region_0.4(%arg0: tensor<i32>, %arg1: tensor<8x4xf32>, %arg2: tensor<5xf32>, %arg3: tensor<5x4x4xf32>) -> (tensor<i32> {mhlo.sharding = "{replicated}"}, tensor<8x4xf32>, tensor<5xf32>, tensor<5x4x4xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_slice %arg3, %arg0, %c_0, %c_0, sizes = [1, 4, 4] : (tensor<5x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.dot %arg1, %2, precision = [DEFAULT, DEFAULT] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %4 = stablehlo.tanh %3 : tensor<8x4xf32>
    %5 = stablehlo.custom_call @Sharding(%4) {backend_config = "", mhlo.sharding = "{mesh['x'=2,'y'=4], [{'x'}, {}]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%arg1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %7 = stablehlo.divide %6, %cst_1 : tensor<f32>
    %8 = stablehlo.reshape %7 : (tensor<f32>) -> tensor<1xf32>
    %9 = stablehlo.dynamic_update_slice %arg2, %8, %arg0 : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
    return %0, %5, %9, %arg3 : tensor<i32>, tensor<8x4xf32>, tensor<5xf32>, tensor<5x4x4xf32>
  }
  func.func private @region_2.5(%arg0: tensor<i32>, %arg1: tensor<8x4xf32>, %arg2: tensor<5xf32>, %arg3: tensor<5x4x4xf32>) -> tensor<i1> {
    %c = stablehlo.constant dense<5> : tensor<i32>
    %0 = stablehlo.compare LT, %arg0, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    return %0 : tensor<i1>
  }
  func.func @main(%arg0: tensor<8x4xf32> {mhlo.sharding = "{mesh['x'=2,'y'=4], [{'x'}, {}]}"}, %arg1: tensor<5x4x4xf32> {mhlo.sharding = "{mesh['x'=2,'y'=4], [{}, {}, {'y'}]}"}) -> (tensor<8x4xf32>, tensor<5xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %1:4 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0, %iterArg_1 = %0, %iterArg_2 = %arg1) : tensor<i32>, tensor<8x4xf32>, tensor<5xf32>, tensor<5x4x4xf32>
    cond {
      %c_3 = stablehlo.constant dense<5> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg, %c_3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 {mhlo.sharding = "{replicated}"} : tensor<i1>
    } do {
      %c_3 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_3 : tensor<i32>
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %3 = stablehlo.dynamic_slice %iterArg_2, %iterArg, %c_4, %c_4, sizes = [1, 4, 4] : (tensor<5x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %4 = stablehlo.reshape %3 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %5 = stablehlo.dot %iterArg_0, %4, precision = [DEFAULT, DEFAULT] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %6 = stablehlo.tanh %5 : tensor<8x4xf32>
      %7 = stablehlo.custom_call @region_2.5(%6) {backend_config = "", mhlo.sharding = "{mesh['x'=2,'y'=4], [{'x'}, {}]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %8 = stablehlo.reduce(%iterArg_0 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
      %cst_6 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
      %9 = stablehlo.divide %8, %cst_6 : tensor<f32>
      %10 = stablehlo.reshape %9 : (tensor<f32>) -> tensor<1xf32>
      %11 = stablehlo.dynamic_update_slice %iterArg_1, %10, %iterArg : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
      stablehlo.return %2, %7, %11, %iterArg_2 : tensor<i32>, tensor<8x4xf32>, tensor<5xf32>, tensor<5x4x4xf32>
    }
    return %1#1, %1#2 : tensor<8x4xf32>, tensor<5xf32>
  }
}
