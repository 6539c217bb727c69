#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {

namespace {

const std::string kAddRegion =
    "f { x = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT z = f32[] add(x, y) }";
const std::string kRegionText =
    "({^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%z = stablehlo.add %x, %y : "
    "tensor<f32>\nstablehlo.return %z : tensor<f32>})";

const std::vector<OpCase> kRegionCases = {
    {"reduce", "%a: tensor<4x8xf32>, %i: tensor<f32>", "tensor<4xf32>",
     "%r = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1] : "
     "(tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>",
     "%r = \"stablehlo.reduce\"(%a, %i) <{dimensions = array<i64: 1>}> " + kRegionText +
         " : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>",
     "ROOT r = f32[4] reduce(a, i), dimensions={1}, to_apply=f", kAddRegion},
    {"reduce of two", "%a: tensor<4xf32>, %b: tensor<4xi32>, %i: tensor<f32>, %j: tensor<i32>",
     "tensor<i32>",
     "%s, %r = stablehlo.reduce(%a init: %i), (%b init: %j) across dimensions = [0] : "
     "(tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)\n"
     " reducer(%p: tensor<f32>, %q: tensor<f32>) (%u: tensor<i32>, %v: tensor<i32>)  {\n%m = "
     "stablehlo.maximum %p, %q : tensor<f32>\n%n = stablehlo.add %u, %v : "
     "tensor<i32>\nstablehlo.return %m, %n : tensor<f32>, tensor<i32>\n}",
     "%s, %r = \"stablehlo.reduce\"(%a, %b, %i, %j) <{dimensions = array<i64: 0>}> ({^bb0(%p: "
     "tensor<f32>, %u: tensor<i32>, %q: tensor<f32>, %v: tensor<i32>):\n%m = stablehlo.maximum "
     "%p, %q : tensor<f32>\n%n = stablehlo.add %u, %v : tensor<i32>\n\"stablehlo.return\"(%m, "
     "%n) : (tensor<f32>, tensor<i32>) -> ()\n}) : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, "
     "tensor<i32>) -> (tensor<f32>, tensor<i32>)",
     "t = (f32[], s32[]) reduce(a, b, i, j), dimensions={0}, to_apply=f\nROOT r = s32[] "
     "get-tuple-element(t), index=1",
     "f { p = f32[] parameter(0)\nu = s32[] parameter(1)\nq = f32[] parameter(2)\nv = s32[] "
     "parameter(3)\nm = f32[] maximum(p, q)\nn = s32[] add(u, v)\nROOT t = (f32[], s32[]) "
     "tuple(m, n) }"},
    {"reduce_window", "%a: tensor<4x6xf32>, %i: tensor<f32>", "tensor<4x3xf32>", "",
     "%r = \"stablehlo.reduce_window\"(%a, %i) <{base_dilations = array<i64: 1, 1>, padding = "
     "dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 2>, "
     "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> " +
         kRegionText + " : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x3xf32>",
     "ROOT r = f32[4,3] reduce-window(a, i), window={size=1x2 stride=1x2 pad=0_0x1_0 "
     "rhs_dilate=1x2}, to_apply=f",
     kAddRegion},
    {"select_and_scatter", "%a: tensor<4xf32>, %s: tensor<2xf32>, %i: tensor<f32>", "tensor<4xf32>",
     "",
     "%r = \"stablehlo.select_and_scatter\"(%a, %s, %i) <{window_dimensions = array<i64: 2>, "
     "window_strides = array<i64: 2>}> ({^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%z = "
     "stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return "
     "%z : tensor<i1>}, {^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%z = stablehlo.add %x, %y : "
     "tensor<f32>\nstablehlo.return %z : tensor<f32>}) : (tensor<4xf32>, tensor<2xf32>, "
     "tensor<f32>) -> tensor<4xf32>",
     "ROOT r = f32[4] select-and-scatter(a, s, i), window={size=2 stride=2}, select=g, scatter=f",
     kAddRegion +
         "\ng { x = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT z = pred[] compare(x, y), "
         "direction=GE }"},
    {"sort", "%a: tensor<3x4xf32>", "tensor<3x4xf32>", "",
     "%r = \"stablehlo.sort\"(%a) <{dimension = -1 : i64, is_stable = true}> ({^bb0(%x: "
     "tensor<f32>, %y: tensor<f32>):\n%z = stablehlo.compare LT, %x, %y, TOTALORDER : "
     "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %z : tensor<i1>}) : "
     "(tensor<3x4xf32>) -> tensor<3x4xf32>",
     "ROOT r = f32[3,4] sort(a), dimensions={1}, is_stable=true, to_apply=g",
     "g { x = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT z = pred[] compare(x, y), "
     "direction=LT, type=TOTALORDER }"},
    {"gather", "%a: tensor<10x8xf32>, %i: tensor<5x1xi32>", "tensor<5x8xf32>", "",
     "%r = \"stablehlo.gather\"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = "
     "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
     "indices_are_sorted = true, slice_sizes = array<i64: 1, 8>}> : (tensor<10x8xf32>, "
     "tensor<5x1xi32>) -> tensor<5x8xf32>",
     "ROOT r = f32[5,8] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, indices_are_sorted=true"},
    {"dynamic_gather", "%a: tensor<10x8xf32>, %i: tensor<5x1xi32>", "tensor<5x8xf32>", "",
     "%s = stablehlo.constant dense<[1, 8]> : tensor<2xi32>\n%r = "
     "\"stablehlo.dynamic_gather\"(%a, %i, %s) <{dimension_numbers = "
     "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, indices_are_sorted = false}> : (tensor<10x8xf32>, tensor<5x1xi32>, "
     "tensor<2xi32>) -> tensor<5x8xf32>",
     "s = s32[2] constant({1,8})\nROOT r = f32[5,8] gather(a, i), offset_dims={1}, "
     "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}"},
    {"scatter", "%a: tensor<10x8xf32>, %i: tensor<5x1xi32>, %u: tensor<5x8xf32>",
     "tensor<10x8xf32>", "",
     "%r = \"stablehlo.scatter\"(%a, %i, %u) <{scatter_dimension_numbers = "
     "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
     "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> " +
         kRegionText +
         " : (tensor<10x8xf32>, tensor<5x1xi32>, tensor<5x8xf32>) -> tensor<10x8xf32>",
     "ROOT r = f32[10,8] scatter(a, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=f",
     kAddRegion},
    {"gather with batching dims", "%a: tensor<2x10xf32>, %i: tensor<2x5x1xi32>", "tensor<2x5xf32>",
     "",
     "%r = \"stablehlo.gather\"(%a, %i) <{dimension_numbers = "
     "#stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], "
     "start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, "
     "slice_sizes = array<i64: 1, 1>}> : (tensor<2x10xf32>, tensor<2x5x1xi32>) -> "
     "tensor<2x5xf32>",
     "ROOT r = f32[2,5] gather(a, i), offset_dims={}, collapsed_slice_dims={1}, "
     "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
     "index_vector_dim=2, slice_sizes={1,1}"},
};

}  // namespace

std::vector<OpCase> region_cases() { return kRegionCases; }

}  // namespace gspmd::stablehlo
