module @jit_main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @amin() -> (tensor<2x4x0xi32> {jax.result_info = "", mhlo.layout_mode = "default"}) {
    %in:2 = call @inputs() : () -> (tensor<2x3x4xi8>, tensor<4x3x3xi8>)
    %want = call @expected() : () -> tensor<2x4x0xi32>
    %r = stablehlo.convolution(%in#0, %in#1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [3], pad = [[0, -2]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [!stablehlo<precésion DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x4xi8>, tensor<4x3x3xi8>) -> tensor<2x4x0xi32>
    stablehlo.custom_call @check.expect_eq(%r, %want) {has_side_effect = true} : (tensor<2x4x0xi32>, tensor<2x4x0xi32>) -> ()
    return %r : tensor<2x4x0xi32>
  }
  func.func private @inputs() -> (tensor<2x3x4xi8> {mhlo.layout_mode = "default"}, tensor<4x3x3xi8> {mhlo.layout_mode = "default"}) {
    %c_0 = stablehlo.constant dense<"0x000202010002010000020100000101000202020001000201"> : tensor<2x3x4xi8>
    %c_1 = stablehlo.constant dense<[[[2, 1, 1], [0, 0, 2], [0, 2, 2]], [[0, 1, 1], [2, 1, 2], [1, 0, 1]], [[0, 1, 1], [1, 1, 0], [1, 0, 2]], [[0, 1, 1], [1, 1, 1], [0, 0, 1]]]> : tensor<4x3x3xi8>
    return %c_0, %c_1 : tensor<2x3x4xi8>, tensor<4x3x3xi8>
  }
  func.func private @expected() -> (tensor<2x4x0xi32> {mhlo.layout_mode = "default"}) {
    %c_0 = stablehlo.constant dense<> : tensor<2x4x0xi32>
    return %c_0 : tensor<2x4x0xi32>
  }
}
