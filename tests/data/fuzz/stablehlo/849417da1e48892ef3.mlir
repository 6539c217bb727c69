module @subset attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]0,1,4,5}"}, %arg1: tensor<8x8xf32> {mhlo.sharding = "{maximal device=3}"}, %arg2: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,2]7,9223372036854775807,1,5,0,2,4,6}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %arg0, %arg1 {mhlo.sharding = "{devices=[2,1]3,1}"} : tensor<8x8xf32>
    %1 = stablehlo.multiply %0, %arg2 : tensor<8x8xf32>
    %2 = stablehlo.dot_general %1, %arg0, contracting_dims = [0] x [1] {mhlo.sharding = "{maximal device=7}"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = sdy.constant %2, %arg2 {mhlo.sharding = "{devices=[1,5]<=[5]}"} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
