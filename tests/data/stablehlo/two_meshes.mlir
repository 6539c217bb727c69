sdy.mesh @m = <["x"=2, "y"=2]>
sdy.mesh @t = <["p"=4], device_ids=[0, 2, 1, 3]>
func.func @main(%i: tensor<i32>, %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x4xf32> {
  %0 = "stablehlo.case"(%i) ({
    %2 = stablehlo.negate %a : tensor<8x4xf32>
    stablehlo.return %2 : tensor<8x4xf32>
  }, {
    stablehlo.return %a : tensor<8x4xf32>
  }) : (tensor<i32>) -> tensor<8x4xf32>
  %1 = sdy.sharding_constraint %0 <@t, [{"p"}, {}]> : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
