module @jit__lambda attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 4 : i32, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<4x16xf32> {stablehlo.constant = "{mesh['x'=2,'y'=4, [{'x'}, {'y'}]}"}) -> tensor<4x16xf32> {
    %0 = stablehlo.custom_call @CustomSPMDPartitioning(%arg0) {api_version = 2 : i32, backend_config = "1", mhlo.frontend_attributes = {xla.sdy.sharding_rule = "#sdy.op_sharding_rule<([i, j]->([i, j]) {i=4, j=16}, custom>"}} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %cst = stablehlo.constant dense<2.000000e+5> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<4x?xf32>
    return %2 : tensor<4x16xf32>
  }
}
