func.func @main(%arg0: tensor<4x8xf32>) -> tensor<1x8xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<1x8xf32>
  %c_0 = stablehlo.constant dense<4> : tensor<i32>
  %0:2 = stablehlo.while(%iterArg = %c, %iterArg_1 = %cst) : tensor<i32>, tensor<1x8xf32>
   cond {
    %1 = stablehlo.compare LT, %iterArg, %c_0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.dynamic_slice %arg0, %iterArg, %c, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %2 = func.call @g(%1) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %c_2 = stablehlo.constant dense<1> : tensor<i32>
    %3 = stablehlo.add %iterArg, %c_2 : tensor<i32>
    stablehlo.return %3, %2 : tensor<i32>, tensor<1x8xf32>
  }
  return %0#1 : tensor<1x8xf32>
}
func.func private @g(%arg0: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = stablehlo.exponential %arg0 : tensor<1x8xf32>
  return %0 : tensor<1x8xf32>
}
