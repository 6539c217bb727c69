// ok: chlo top_k pretty with is_stable off
func.func @main(%a: tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %v, %i = chlo.top_k(%a, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %v, %i : tensor<3x2xf32>, tensor<3x2xi32>
}
// -----
// ok: module attributes, dlti, unknown discardables, locations everywhere
#loc = loc(unknown)
#loc1 = loc("x")
module @"jit_<lambda>" attributes {dlti.dl_spec = #dlti.dl_spec<#dlti.dl_entry<"x", 1 : i32>>, mhlo.cross_program_prefetches = [], mhlo.is_dynamic = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32, mhlo.use_auto_spmd_partitioning = false} {
  func.func public @main(%arg0: tensor<2xf32> {mhlo.layout_mode = "default", mhlo.memory_kind = "device"} loc("x")) -> (tensor<2xf32> {jax.result_info = "['a'][0]", mhlo.layout_mode = "default"}) {
    %0 = stablehlo.sine %arg0 : tensor<2xf32> loc(fused<"pass">["a"("b.py":1:2), callsite("f"("c.py":3:4) at "d.py":5:6)])
    return %0 : tensor<2xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("b.py":1:2)
// -----
// ok: hex floats, splats and nested dense of all kinds
func.func @main() -> (tensor<2xf32>, tensor<3xi8>, tensor<2x2xi1>, tensor<2xcomplex<f32>>, tensor<0x3xf32>, tensor<2xf16>, tensor<1xui64>, tensor<f8E4M3FN>) {
  %0 = stablehlo.constant dense<[0x7F800000, 0xFFC00000]> : tensor<2xf32>
  %1 = stablehlo.constant dense<[-128, 0x7F, 0xFF]> : tensor<3xi8>
  %2 = stablehlo.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
  %3 = stablehlo.constant dense<[(1.0, 0xFF800000), (-0.0, 2.5e-1)]> : tensor<2xcomplex<f32>>
  %4 = stablehlo.constant dense<> : tensor<0x3xf32>
  %5 = stablehlo.constant dense<"0x003C00C0"> : tensor<2xf16>
  %6 = stablehlo.constant dense<18446744073709551615> : tensor<1xui64>
  %7 = stablehlo.constant dense<0x7F> : tensor<f8E4M3FN>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2xf32>, tensor<3xi8>, tensor<2x2xi1>, tensor<2xcomplex<f32>>, tensor<0x3xf32>, tensor<2xf16>, tensor<1xui64>, tensor<f8E4M3FN>
}
// -----
// ok: dense_resource with an escaped key
module {
  func.func @main() -> tensor<2xf32> {
    %0 = stablehlo.constant dense_resource<__my.res_1> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
{-#
  dialect_resources: {
    builtin: {
      __my.res_1: "0x040000000000803F00000040"
    }
  }
#-}
// -----
// ok: tokens through custom calls with side effects, optimization barriers
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>) {
  %t = stablehlo.create_token : !stablehlo.token
  %u = stablehlo.after_all %t, %t : !stablehlo.token
  %b:2 = stablehlo.optimization_barrier %a, %u : tensor<4xf32>, !stablehlo.token
  %v = "stablehlo.after_all"(%b#1) : (!stablehlo.token) -> !stablehlo.token
  return %b#0 : tensor<4xf32>
}
// -----
// ok: tuples nested and taken apart
func.func @main(%a: tensor<f32>, %b: tensor<2xi32>) -> tensor<2xi32> {
  %0 = stablehlo.tuple %a, %b : tuple<tensor<f32>, tensor<2xi32>>
  %1 = "stablehlo.tuple"(%0, %b) : (tuple<tensor<f32>, tensor<2xi32>>, tensor<2xi32>) -> tuple<tuple<tensor<f32>, tensor<2xi32>>, tensor<2xi32>>
  %2 = stablehlo.get_tuple_element %1[0] : (tuple<tuple<tensor<f32>, tensor<2xi32>>, tensor<2xi32>>) -> tuple<tensor<f32>, tensor<2xi32>>
  %3 = "stablehlo.get_tuple_element"(%2) <{index = 1 : i32}> : (tuple<tensor<f32>, tensor<2xi32>>) -> tensor<2xi32>
  return %3 : tensor<2xi32>
}
// -----
// ok: composite with a version and attributes, private decomposition
module {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "my.gelu" %a {composite_attributes = {approximate = "tanh", n = 3 : i64}, decomposition = @my.gelu.impl, version = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @my.gelu.impl(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
// ok: old style attributes of dense i64 arrays and window reductions
func.func @main(%x: tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> {
  %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %c) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.maximum %p, %q : tensor<f32>
    "stablehlo.return"(%1) : (tensor<f32>) -> ()
  }) {window_dimensions = dense<[1, 2, 2, 1]> : tensor<4xi64>, window_strides = dense<[1, 2, 2, 1]> : tensor<4xi64>, padding = dense<0> : tensor<4x2xi64>} : (tensor<1x4x4x1xf32>, tensor<f32>) -> tensor<1x2x2x1xf32>
  return %0 : tensor<1x2x2x1xf32>
}
// -----
// ok: variadic reduce with a reducer, argmax style of JAX
func.func @main(%x: tensor<3x4xf32>) -> tensor<3xi32> {
  %0 = stablehlo.iota dim = 1 : tensor<3x4xi32>
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %1:2 = stablehlo.reduce(%x init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>)  {
    %2 = stablehlo.compare  GT, %a, %b,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.compare  NE, %a, %a,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.or %2, %3 : tensor<i1>
    %5 = stablehlo.compare  EQ, %a, %b,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.compare  LT, %i, %j,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.and %5, %6 : tensor<i1>
    %8 = stablehlo.or %4, %7 : tensor<i1>
    %9 = stablehlo.select %4, %a, %b : tensor<i1>, tensor<f32>
    %10 = stablehlo.select %8, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
  }
  return %1#1 : tensor<3xi32>
}
// -----
// ok: sort of two operands with total order comparator of JAX
func.func @main(%a: tensor<5xf32>, %b: tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>) {
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = -1 : i64, is_stable = true}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
    %1 = stablehlo.compare  LT, %arg1, %arg2,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<5xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>)
  return %0#0, %0#1 : tensor<5xf32>, tensor<5xi32>
}
// -----
// ok: gather with batching dims, scatter with several inputs
func.func @main(%x: tensor<2x5xf32>, %i: tensor<2x3x1xi32>, %u: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<5xf32>) {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = true, slice_sizes = array<i64: 1, 1>}> : (tensor<2x5xf32>, tensor<2x3x1xi32>) -> tensor<2x3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<5xf32>
  %k = stablehlo.constant dense<[[0], [2], [2]]> : tensor<3x1xi32>
  %1:2 = "stablehlo.scatter"(%z, %z, %k, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    %3 = stablehlo.add %a, %c : tensor<f32>
    %4 = stablehlo.maximum %b, %d : tensor<f32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<f32>
  }) : (tensor<5xf32>, tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<5xf32>, tensor<5xf32>)
  return %0, %1#0 : tensor<2x3xf32>, tensor<5xf32>
}
// -----
// ok: custom calls with layouts, aliases, a dictionary of a typed call: kept
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.custom_call @LayoutConstraint(%a) {api_version = 1 : i32, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// -----
// ok: an unknown custom call is an error at run time only
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.custom_call @"my target"(%a) {api_version = 4 : i32, backend_config = {eps = 1.0e-6 : f32, n = [1, 2], s = "x\22y"}, called_computations = [], has_side_effect = true, mhlo.frontend_attributes = {"a b" = "{c}"}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// -----
// error: dequantize
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5:10>>) -> tensor<2xf32> {
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!quant.uniform<i8:f32, 0.5:10>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// error: quant
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8<-127:127>:f32:0, {0.1, 0.2:3}>>
  return %a : tensor<2xf32>
}
// -----
// ok: complex math
func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xcomplex<f32>>, tensor<3xf32>) {
  %0 = stablehlo.complex %a, %b : tensor<3xcomplex<f32>>
  %1 = stablehlo.exponential %0 : tensor<3xcomplex<f32>>
  %2 = stablehlo.abs %1 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %3 = stablehlo.real %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %4 = chlo.conj %0 : tensor<3xcomplex<f32>> -> tensor<3xcomplex<f32>>
  return %4, %2 : tensor<3xcomplex<f32>>, tensor<3xf32>
}
// -----
// ok: fp8 dots with an algorithm
func.func @main(%a: tensor<4x8xf8E4M3FN>, %b: tensor<8x4xf8E5M2>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = f8E4M3FN, rhs_precision_type = f8E5M2, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = true> : (tensor<4x8xf8E4M3FN>, tensor<8x4xf8E5M2>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// -----
// ok: convolution with reverse as true and odd letters order
func.func @main(%x: tensor<1x8x3xf32>, %k: tensor<3x3x4xf32>) -> tensor<1x4x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 1]], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x8x3xf32>, tensor<3x3x4xf32>) -> tensor<1x4x4xf32>
  return %0 : tensor<1x4x4xf32>
}
// -----
// ok: rng bit generator, threefry wraps
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm =  THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %0, %1 : tensor<2xui64>, tensor<4xui32>
}
// -----
// ok: while without a use of a carried value, nested with captures, call inside
module {
  func.func private @body(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %x, %x : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func public @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c1 = stablehlo.constant dense<1> : tensor<i32>
    %c3 = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %2:2 = stablehlo.while(%j = %c, %z = %y) : tensor<i32>, tensor<f32> attributes {mhlo.frontend_attributes = {a = "b"}}
      cond {
        %3 = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %3 : tensor<i1>
      } do {
        %4 = func.call @body(%z) : (tensor<f32>) -> tensor<f32>
        %5 = stablehlo.add %j, %c1 : tensor<i32>
        stablehlo.return %5, %4 : tensor<i32>, tensor<f32>
      }
      %6 = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %6, %2#1 : tensor<i32>, tensor<f32>
    }
    return %0#1 : tensor<f32>
  }
}
// -----
// ok: case with several results and captures
func.func @main(%i: tensor<i32>, %a: tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>) {
  %0:2 = "stablehlo.case"(%i) ({
    %1 = stablehlo.negate %a : tensor<2xf32>
    stablehlo.return %1, %i : tensor<2xf32>, tensor<i32>
  }, {
    %c = stablehlo.constant dense<7> : tensor<i32>
    stablehlo.return %a, %c : tensor<2xf32>, tensor<i32>
  }) : (tensor<i32>) -> (tensor<2xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<i32>
}
// -----
// ok: chlo broadcast ops and constants
func.func @main(%a: tensor<3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %0 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = chlo.constant dense<1.0> : tensor<f32>
  %2 = chlo.broadcast_compare %0, %1 {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  return %2 : tensor<2x3xi1>
}
// -----
// ok: chlo specials
func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = chlo.erf_inv %a : tensor<3xf32> -> tensor<3xf32>
  %1 = chlo.lgamma %0 : tensor<3xf32> -> tensor<3xf32>
  %2 = chlo.asinh %1 : tensor<3xf32> -> tensor<3xf32>
  %3 = chlo.square %2 : tensor<3xf32> -> tensor<3xf32>
  %4 = chlo.next_after %3, %a : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  %5 = chlo.erfc %4 : tensor<3xf32> -> tensor<3xf32>
  return %5 : tensor<3xf32>
}
// -----
// ok: sdy rule attribute with special lists on a custom call, kept
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<4x8xf32> {
  %0 = stablehlo.negate %a {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=8}>} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// -----
// ok: custom rule with reduction and blocked factors
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.custom_call @foo(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=4, j=4, k=8} reduction={k} blocked_propagation={j}, custom>} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// -----
// ok: priorities, sub-axes, replicated, open dims, unreduced spellings
sdy.mesh @mesh = <["a"=4, "b"=2, "c"=2]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a":(1)2, ?}p0, {"b", "c", ?}p2], replicated={"a":(2)2}>}, %y: tensor<8x8xf32>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}p1]>}) {
  %0 = stablehlo.add %x, %y : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
// ok: groups, barriers, edges in text, named computation
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  sdy.sharding_group %x group_id = 21 : tensor<8x8xf32>
  sdy.sharding_group %y group_id=21 : tensor<8x8xf32>
  %0 = sdy.propagation_barrier %x allowed_direction=NONE : tensor<8x8xf32>
  %1 = sdy.data_flow_edge %0 sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  %2 = sdy.named_computation<"foo">(%1) in_shardings=[<@mesh, [{}, {"b"}]>] out_shardings=[<@mesh, [{}, {"b"}]>] (%arg1: tensor<8x8xf32>) {
    %3 = stablehlo.abs %arg1 : tensor<8x8xf32>
    sdy.return %3 : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2, %y : tensor<8x8xf32>, tensor<8x8xf32>
}
// -----
// ok: manual computation nested, a free axis inside
sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}, {"c", ?}]>] out_shardings=[<@mesh, [{"a"}, {?}]>] manual_axes={"a"} (%arg1: tensor<4x8xf32>) {
    %1 = sdy.manual_computation(%arg1) in_shardings=[<@mesh, [{}, {"b"}]>] out_shardings=[<@mesh, [{}, {"b"}]>] manual_axes={"b"} (%arg2: tensor<4x4xf32>) {
      %2 = stablehlo.multiply %arg2, %arg2 : tensor<4x4xf32>
      sdy.return %2 : tensor<4x4xf32>
    } : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
// ok: sdy collectives
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.all_gather [{"b"}, {}] %x out_sharding=<@mesh, [{"a"}, {}]> : tensor<8x8xf32>
  %1 = sdy.all_slice [{}, {"b"}] %0 out_sharding=<@mesh, [{"a"}, {"b"}]> : tensor<8x8xf32>
  %2 = sdy.all_to_all [{"a"}: 0->1] %1 out_sharding=<@mesh, [{}, {"b", "a"}]> : tensor<8x8xf32>
  %3 = sdy.collective_permute %2 out_sharding=<@mesh, [{}, {"a", "b"}]> : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
// -----
// ok: inlined meshes, device ids, maximal mesh, empty mesh
sdy.mesh @empty = <[]>
sdy.mesh @max = <[], device_ids=[1]>
sdy.mesh @ids = <["a"=2, "b"=2], device_ids=[0, 2, 1, 3]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["a"=2, "b"=2], device_ids=[0, 2, 1, 3]>, [{"a"}, {}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.add %x, %x {sdy.sharding = #sdy.sharding_per_value<[<@ids, [{"a", ?}, {"b", ?}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
// ok: older GSPMD shard_map
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%arg0: tensor<8x4xf32> {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"}) -> (tensor<8x4xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8x4xf32>) -> tensor<2x4xf32>
    %2 = stablehlo.sine %1 : tensor<2x4xf32>
    %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    return %4 : tensor<8x4xf32>
  }
}
// -----
// ok: torch-xla style names with dots and locations
module @IrToHlo.15 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<5xf32>, %arg1: tensor<10x5xf32>) -> tensor<10xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[5,10]{0,1}"} : (tensor<10x5xf32>) -> tensor<5x10xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x5xf32>, tensor<5x10xf32>) -> tensor<1x10xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x10xf32>) -> tensor<10xf32>
    return %3 : tensor<10xf32>
  }
}
// -----
// error: export with static shapes
module @IrToHlo attributes {mhlo.is_dynamic = true} {
  func.func @main(%arg0: tensor<?x5xf32>) -> tensor<?x5xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<?x5xf32>
    return %0 : tensor<?x5xf32>
  }
}
// -----
// ok: bounded dims at their bound
func.func @main(%a: tensor<?x3xf32, #stablehlo.type_extensions<bounds = [4, ?]>>) -> tensor<i32> {
  %0 = stablehlo.add %a, %a : tensor<?x3xf32, #stablehlo.type_extensions<bounds = [4, ?]>>
  %1 = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?x3xf32, #stablehlo.type_extensions<bounds = [4, ?]>>) -> tensor<i32>
  return %1 : tensor<i32>
}
// -----
// ok: attribute and type aliases
!t = tensor<2x2xf32>
#dims = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
module {
  func.func @main(%a: !t) -> !t {
    %0 = "stablehlo.dot_general"(%a, %a) {dot_dimension_numbers = #dims} : (!t, !t) -> !t
    return %0 : !t
  }
}
// -----
// ok: result accuracy
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.exponential %a {result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2xf32>
  %1 = "stablehlo.tanh"(%0) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// -----
// ok: fft, cholesky, triangular solve
func.func @main(%a: tensor<16xf32>, %m: tensor<2x2xf32>) -> (tensor<9xcomplex<f32>>, tensor<2x2xf32>) {
  %0 = stablehlo.fft %a, type =  RFFT, length = [16] : (tensor<16xf32>) -> tensor<9xcomplex<f32>>
  %c = stablehlo.constant dense<[[2.0, 0.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %1 = "stablehlo.triangular_solve"(%c, %m) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<9xcomplex<f32>>, tensor<2x2xf32>
}
// -----
// ok: map, torch_index_select, einsum, dot, broadcast of older programs
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = "stablehlo.map"(%a, %a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %4 = stablehlo.multiply %x, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) {dimensions = dense<[0, 1]> : tensor<2xi64>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "stablehlo.einsum"(%0, %b) <{einsum_config = "ij,jk->ik"}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.dot %0, %b, precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %3 = stablehlo.add %1, %2 : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
// -----
// ok: integers of every width
func.func @main(%a: tensor<3xi4>, %b: tensor<3xui4>, %c: tensor<3xi16>) -> (tensor<3xi4>, tensor<3xui4>, tensor<3xi16>, tensor<3xi2>) {
  %0 = stablehlo.add %a, %a : tensor<3xi4>
  %1 = stablehlo.multiply %b, %b : tensor<3xui4>
  %2 = stablehlo.shift_right_arithmetic %c, %c : tensor<3xi16>
  %3 = stablehlo.constant dense<[1, -2, 0]> : tensor<3xi2>
  return %0, %1, %2, %3 : tensor<3xi4>, tensor<3xui4>, tensor<3xi16>, tensor<3xi2>
}
// -----
// error: branches between blocks
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  cf.br ^bb1(%a : tensor<f32>)
^bb1(%b: tensor<f32>):
  return %b : tensor<f32>
}
// -----
// error: is not defined here
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %1 : tensor<f32>
  %1 = stablehlo.negate %a : tensor<f32>
  return %0 : tensor<f32>
}
// -----
// error: calls itself
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @f(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @g(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
// -----
// ok: psum with mesh axes groups, partition ids in a manual region
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<4xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"y"}]>] manual_axes={"x", "y"} (%b: tensor<2x2xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%b init: %c) applies stablehlo.add across dimensions = [0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %3 = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %2 : tensor<2xf32>
  } : (tensor<4x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ok: functions shared by calls with other shardings
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = call @f(%a) {mhlo.frontend_attributes = {inlineable = "false"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @f(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
func.func private @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.cosine %a : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// -----
// ok: select and scatter, batch norm inference
func.func @main(%x: tensor<1x4x4x1xf32>, %s: tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<1x4x4x1xf32>, tensor<1x2x2x1xf32>, tensor<f32>) -> tensor<1x4x4x1xf32>
  %v = stablehlo.constant dense<1.0> : tensor<1xf32>
  %2 = "stablehlo.batch_norm_inference"(%0, %v, %v, %v, %v) <{epsilon = 1.000000e-03 : f32, feature_index = 3 : i64}> : (tensor<1x4x4x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x1xf32>
  return %2 : tensor<1x4x4x1xf32>
}
// -----
// ok: aliasing and donors, unused arguments
module @jit_step attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["data"=2]>
  func.func public @main(%arg0: tensor<4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}, %arg1: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg2: tensor<ui32> {jax.global_constant = "k"}) -> (tensor<4xf32> {jax.result_info = "[0]"}, tensor<f32> {jax.result_info = "[1]"}) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>
    %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<4xf32>, tensor<f32>
  }
}
// -----
// ok: symbols in quotes
module @"a b" {
  func.func public @main(%a: tensor<f32>) -> tensor<f32> {
    %0 = call @"f<x>"(%a) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @"f<x>"(%a: tensor<f32>) -> tensor<f32> {
    return %a : tensor<f32>
  }
}
// -----
// ok: the generic form of everything
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<2xf32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %2 = "stablehlo.compare"(%1, %0) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %3 = "stablehlo.select"(%2, %1, %0) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%3) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
// ok: generic sdy ops
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> ()
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "sdy.sharding_constraint"(%a) <{sharding = #sdy.sharding<@mesh, [{"x"}]>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// ok: async ops
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.async_start"(%a) ({
  ^bb0(%b: tensor<4xf32>):
    %2 = stablehlo.negate %b : tensor<4xf32>
    stablehlo.return %2 : tensor<4xf32>
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
  %1 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// -----
// ok: reduce_precision and popcnt and rounding
func.func @main(%a: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4xf32>
  %1 = stablehlo.round_nearest_even %0 : tensor<4xf32>
  %2 = stablehlo.popcnt %i : tensor<4xi32>
  %3 = stablehlo.count_leading_zeros %2 : tensor<4xi32>
  return %1, %3 : tensor<4xf32>, tensor<4xi32>
}
// -----
// ok: dimension variables of jax.export resolved by a call
module @jit_f attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%arg0: tensor<3x4xf32>) -> tensor<12xf32> {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %0 = call @_wrapped_jax_export_main(%c, %arg0) : (tensor<i32>, tensor<3x4xf32>) -> tensor<?xf32>
    %1 = stablehlo.convert %0 : (tensor<?xf32>) -> tensor<12xf32>
    return %1 : tensor<12xf32>
  }
  func.func private @_wrapped_jax_export_main(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<?x4xf32>) -> (tensor<?xf32> {jax.result_info = ""}) {
    %c = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.multiply %arg0, %c : tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.dynamic_reshape %arg1, %1 : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %2 : tensor<?xf32>
  }
}
// -----
// ok: python comments, odd blanks and no newline
func.func  @main ( %a : tensor< 2x3xf32 > )->tensor<2x3xf32>{ // comment
  %0=stablehlo.negate %a:tensor<2x3xf32>   // more
  return %0:tensor<2x3xf32>}
// -----
// error: the result is declared as
func.func @main(%a: tensor<2xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %a : (tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// error: rank
func.func @main(%a: tensor<*xf32>) -> tensor<*xf32> {
  return %a : tensor<*xf32>
}
// -----
// error: encodings
func.func @main(%a: tensor<2xf32, #sparse_tensor.encoding<{ map = (d0) -> (d0 : compressed) }>>) -> tensor<2xf32> {
  %0 = stablehlo.negate %a : (tensor<2xf32, #sparse_tensor.encoding<{ map = (d0) -> (d0 : compressed) }>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// error: vhlo
vhlo.func_v1 @main(%arg0: !vhlo.tensor_v1<!vhlo.f32_v1>) -> (!vhlo.tensor_v1<!vhlo.f32_v1>) {
  "vhlo.return_v1"(%arg0) : (!vhlo.tensor_v1<!vhlo.f32_v1>) -> ()
}
// -----
// error: mesh
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@nomesh, [{"x"}]>}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
// -----
// error: axis
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"x"}]>}) -> tensor<4x4xf32> {
  return %a : tensor<4x4xf32>
}
// -----
// ok: ragged dot of chlo
func.func @main(%l: tensor<11x5xf32>, %r: tensor<3x5x7xf32>) -> tensor<11x7xf32> {
  %g = stablehlo.constant dense<[4, 5, 2]> : tensor<3xi64>
  %0 = "chlo.ragged_dot"(%l, %r, %g) <{precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<11x5xf32>, tensor<3x5x7xf32>, tensor<3xi64>) -> tensor<11x7xf32>
  return %0 : tensor<11x7xf32>
}
// -----
// ok: unreduced results and reductions of sdy
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"y"}>}) -> tensor<8x8xf32> {
  %0 = sdy.all_reduce {"y"} %a out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
// ok: manual computation with a scalar and an empty operand list
sdy.mesh @mesh = <["x"=2]>
func.func @main(%t: tensor<f32>) -> tensor<4xf32> {
  %0 = sdy.manual_computation(%t) in_shardings=[<@mesh, []>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<f32>) {
    %1 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<2xf32>
    sdy.return %1 : tensor<2xf32>
  } : (tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
