#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {

namespace {

const std::string kImplicitResult = ", frontend_attributes={mlir.implicit=\"true\"}";

const std::vector<OpCase> kShapeCases = {
    {"constant", "", "tensor<2x2xi32>",
     "%r = stablehlo.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi32>",
     "%r = \"stablehlo.constant\"() <{value = dense<[[1, -2], [3, 4]]> : tensor<2x2xi32>}> : () "
     "-> tensor<2x2xi32>",
     "ROOT r = s32[2,2] constant({{1,-2},{3,4}})"},
    {"iota", "", "tensor<2x3xi32>", "%r = stablehlo.iota dim = 1 : tensor<2x3xi32>",
     "%r = \"stablehlo.iota\"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi32>",
     "ROOT r = s32[2,3] iota(), iota_dimension=1"},
    {"broadcast_in_dim", "%a: tensor<3xf32>", "tensor<2x3xf32>",
     "%r = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>",
     "%r = \"stablehlo.broadcast_in_dim\"(%a) <{broadcast_dimensions = array<i64: 1>}> : "
     "(tensor<3xf32>) -> tensor<2x3xf32>",
     "ROOT r = f32[2,3] broadcast(a), dimensions={1}"},
    {"broadcast_in_dim of a dim that grows", "%a: tensor<1x3xf32>", "tensor<3x2xf32>",
     "%r = stablehlo.broadcast_in_dim %a, dims = [1, 0] : (tensor<1x3xf32>) -> tensor<3x2xf32>",
     "%r = \"stablehlo.broadcast_in_dim\"(%a) {broadcast_dimensions = dense<[1, 0]> : "
     "tensor<2xi64>} : (tensor<1x3xf32>) -> tensor<3x2xf32>",
     "s = f32[3] reshape(a), frontend_attributes={mlir.implicit=\"-2 0\"}\n"
     "ROOT r = f32[3,2] broadcast(s), dimensions={0}"},
    {"broadcast_in_dim of a dim that grows beside one that does not", "%a: tensor<1x8x1xf32>",
     "tensor<1x8x4xf32>",
     "%r = stablehlo.broadcast_in_dim %a, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> "
     "tensor<1x8x4xf32>",
     "%r = \"stablehlo.broadcast_in_dim\"(%a) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : "
     "(tensor<1x8x1xf32>) -> tensor<1x8x4xf32>",
     "s = f32[1,8] reshape(a), frontend_attributes={mlir.implicit=\"0 1 -3\"}\n"
     "ROOT r = f32[1,8,4] broadcast(s), dimensions={0,1}"},
    {"broadcast_in_dim of dims in another order", "%a: tensor<2x3xf32>", "tensor<3x4x2xf32>",
     "%r = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<2x3xf32>) -> tensor<3x4x2xf32>",
     "%r = \"stablehlo.broadcast_in_dim\"(%a) <{broadcast_dimensions = array<i64: 2, 0>}> : "
     "(tensor<2x3xf32>) -> tensor<3x4x2xf32>",
     "s = f32[3,2] transpose(a), dimensions={1,0}" + kImplicitResult +
         "\nROOT r = f32[3,4,2] broadcast(s), dimensions={0,2}"},
    {"broadcast", "%a: tensor<4xf32>", "tensor<2x3x4xf32>",
     "%r = stablehlo.broadcast %a, sizes = [2, 3] : (tensor<4xf32>) -> tensor<2x3x4xf32>",
     "%r = \"stablehlo.broadcast\"(%a) <{broadcast_sizes = array<i64: 2, 3>}> : (tensor<4xf32>) "
     "-> tensor<2x3x4xf32>",
     "ROOT r = f32[2,3,4] broadcast(a), dimensions={2}"},
    {"reshape", "%a: tensor<2x3xf32>", "tensor<6xf32>",
     "%r = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<6xf32>",
     "%r = \"stablehlo.reshape\"(%a) : (tensor<2x3xf32>) -> tensor<6xf32>",
     "ROOT r = f32[6] reshape(a)"},
    {"bitcast_convert", "%a: tensor<2xf32>", "tensor<2x4xui8>",
     "%r = stablehlo.bitcast_convert %a : (tensor<2xf32>) -> tensor<2x4xui8>",
     "%r = \"stablehlo.bitcast_convert\"(%a) : (tensor<2xf32>) -> tensor<2x4xui8>",
     "ROOT r = u8[2,4] bitcast-convert(a)"},
    {"transpose", "%a: tensor<2x3x4xf32>", "tensor<4x2x3xf32>",
     "%r = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>",
     "%r = \"stablehlo.transpose\"(%a) <{permutation = array<i64: 2, 0, 1>}> : "
     "(tensor<2x3x4xf32>) -> tensor<4x2x3xf32>",
     "ROOT r = f32[4,2,3] transpose(a), dimensions={2,0,1}"},
    {"reverse", "%a: tensor<2x3xf32>", "tensor<2x3xf32>",
     "%r = stablehlo.reverse %a, dims = [0, 1] : tensor<2x3xf32>",
     "%r = \"stablehlo.reverse\"(%a) <{dimensions = array<i64: 0, 1>}> : (tensor<2x3xf32>) -> "
     "tensor<2x3xf32>",
     "ROOT r = f32[2,3] reverse(a), dimensions={0,1}"},
    {"slice", "%a: tensor<4x8xf32>", "tensor<2x2xf32>",
     "%r = stablehlo.slice %a [0:2, 4:8:2] : (tensor<4x8xf32>) -> tensor<2x2xf32>",
     "%r = \"stablehlo.slice\"(%a) <{limit_indices = array<i64: 2, 8>, start_indices = "
     "array<i64: 0, 4>, strides = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<2x2xf32>",
     "ROOT r = f32[2,2] slice(a), slice={[0:2], [4:8:2]}"},
    {"slice of a scalar", "%a: tensor<f32>", "tensor<f32>",
     "%r = stablehlo.slice %a [] : (tensor<f32>) -> tensor<f32>",
     "%r = \"stablehlo.slice\"(%a) <{limit_indices = array<i64>, start_indices = array<i64>, "
     "strides = array<i64>}> : (tensor<f32>) -> tensor<f32>",
     "ROOT r = f32[] slice(a), slice={}"},
    {"pad", "%a: tensor<3xf32>, %v: tensor<f32>", "tensor<5xf32>",
     "%r = stablehlo.pad %a, %v, low = [1], high = [-1], interior = [1] : (tensor<3xf32>, "
     "tensor<f32>) -> tensor<5xf32>",
     "%r = \"stablehlo.pad\"(%a, %v) <{edge_padding_high = array<i64: -1>, edge_padding_low = "
     "array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<3xf32>, tensor<f32>) -> "
     "tensor<5xf32>",
     "ROOT r = f32[5] pad(a, v), padding=1_-1_1"},
    {"concatenate", "%a: tensor<2xf32>, %b: tensor<3xf32>", "tensor<5xf32>",
     "%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf32>, tensor<3xf32>) -> "
     "tensor<5xf32>",
     "%r = \"stablehlo.concatenate\"(%a, %b) <{dimension = 0 : i64}> : (tensor<2xf32>, "
     "tensor<3xf32>) -> tensor<5xf32>",
     "ROOT r = f32[5] concatenate(a, b), dimensions={0}"},
    {"dynamic_slice", "%a: tensor<4x8xf32>, %i: tensor<i32>, %j: tensor<i32>", "tensor<1x4xf32>",
     "%r = stablehlo.dynamic_slice %a, %i, %j, sizes = [1, 4] : (tensor<4x8xf32>, tensor<i32>, "
     "tensor<i32>) -> tensor<1x4xf32>",
     "%r = \"stablehlo.dynamic_slice\"(%a, %i, %j) <{slice_sizes = array<i64: 1, 4>}> : "
     "(tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>",
     "ROOT r = f32[1,4] dynamic-slice(a, i, j), dynamic_slice_sizes={1,4}"},
    {"dynamic_update_slice", "%a: tensor<8xf32>, %u: tensor<2xf32>, %i: tensor<ui8>",
     "tensor<8xf32>",
     "%r = stablehlo.dynamic_update_slice %a, %u, %i : (tensor<8xf32>, tensor<2xf32>, "
     "tensor<ui8>) -> tensor<8xf32>",
     "%r = \"stablehlo.dynamic_update_slice\"(%a, %u, %i) : (tensor<8xf32>, tensor<2xf32>, "
     "tensor<ui8>) -> tensor<8xf32>",
     "ROOT r = f32[8] dynamic-update-slice(a, u, i)"},
    {"get_dimension_size", "%a: tensor<4x8xf32>", "tensor<i32>",
     "%r = stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x8xf32>) -> tensor<i32>",
     "%r = \"stablehlo.get_dimension_size\"(%a) <{dimension = 1 : i64}> : (tensor<4x8xf32>) -> "
     "tensor<i32>",
     "ROOT r = s32[] constant(8)"},
    {"set_dimension_size", "%a: tensor<4xf32>, %n: tensor<i32>",
     "tensor<?xf32, #stablehlo.bounds<4>>",
     "%r = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> "
     "tensor<?xf32, #stablehlo.bounds<4>>",
     "%r = \"stablehlo.set_dimension_size\"(%a, %n) <{dimension = 0 : i64}> : (tensor<4xf32>, "
     "tensor<i32>) -> tensor<?xf32, #stablehlo.type_extensions<bounds = [4]>>",
     "ROOT r = f32[<=4] set-dimension-size(a, n), dimensions={0}"},
    {"tuple", "%a: tensor<2xf32>, %b: tensor<i1>", "tuple<tensor<2xf32>, tensor<i1>>",
     "%r = stablehlo.tuple %a, %b : tuple<tensor<2xf32>, tensor<i1>>",
     "%r = \"stablehlo.tuple\"(%a, %b) : (tensor<2xf32>, tensor<i1>) -> tuple<tensor<2xf32>, "
     "tensor<i1>>",
     "ROOT r = (f32[2], pred[]) tuple(a, b)"},
    {"get_tuple_element", "%a: tuple<tensor<2xf32>, tensor<i1>>", "tensor<i1>",
     "%r = stablehlo.get_tuple_element %a[1] : (tuple<tensor<2xf32>, tensor<i1>>) -> tensor<i1>",
     "%r = \"stablehlo.get_tuple_element\"(%a) <{index = 1 : i32}> : (tuple<tensor<2xf32>, "
     "tensor<i1>>) -> tensor<i1>",
     "ROOT r = pred[] get-tuple-element(a), index=1"},
    {"torch_index_select", "%a: tensor<5x2xf32>, %i: tensor<3xi32>", "tensor<3x2xf32>", "",
     "%r = \"stablehlo.torch_index_select\"(%a, %i) <{batch_dims = 0 : i64, dim = 0 : i64}> : "
     "(tensor<5x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>",
     "ROOT r = f32[3,2] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}"},
    {"dynamic_reshape", "%a: tensor<6xf32>", "tensor<2x3xf32>",
     "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
     "%r = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>",
     "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
     "%r = \"stablehlo.dynamic_reshape\"(%a, %s) : (tensor<6xf32>, tensor<2xi32>) -> "
     "tensor<?x3xf32>",
     "s = s32[2] constant({2,3})\nROOT r = f32[2,3] reshape(a)"},
    {"dynamic_broadcast_in_dim", "%a: tensor<3xf32>", "tensor<2x3xf32>",
     "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
     "%r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, "
     "tensor<2xi32>) -> tensor<2x3xf32>",
     "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
     "%r = \"stablehlo.dynamic_broadcast_in_dim\"(%a, %s) <{broadcast_dimensions = array<i64: "
     "1>, known_expanding_dimensions = array<i64>}> : (tensor<3xf32>, tensor<2xi32>) -> "
     "tensor<2x3xf32>",
     "s = s32[2] constant({2,3})\nROOT r = f32[2,3] broadcast(a), dimensions={1}"},
    {"dynamic_iota", "", "tensor<4xi32>",
     "%s = stablehlo.constant dense<4> : tensor<1xi32>\n"
     "%r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<4xi32>",
     "%s = stablehlo.constant dense<4> : tensor<1xi32>\n"
     "%r = \"stablehlo.dynamic_iota\"(%s) <{iota_dimension = 0 : i64}> : (tensor<1xi32>) -> "
     "tensor<4xi32>",
     "s = s32[1] constant({4})\nROOT r = s32[4] iota(), iota_dimension=0"},
    {"real_dynamic_slice", "%a: tensor<6xf32>", "tensor<2xf32>",
     "%s = stablehlo.constant dense<1> : tensor<1xi32>\n%l = stablehlo.constant dense<5> : "
     "tensor<1xi32>\n"
     "%t = stablehlo.constant dense<2> : tensor<1xi32>\n"
     "%r = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<6xf32>, tensor<1xi32>, "
     "tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>",
     "%s = stablehlo.constant dense<1> : tensor<1xi32>\n%l = stablehlo.constant dense<5> : "
     "tensor<1xi32>\n"
     "%t = stablehlo.constant dense<2> : tensor<1xi32>\n"
     "%r = \"stablehlo.real_dynamic_slice\"(%a, %s, %l, %t) : (tensor<6xf32>, tensor<1xi32>, "
     "tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>",
     "s = s32[1] constant({1})\nl = s32[1] constant({5})\nt = s32[1] constant({2})\nROOT r = "
     "f32[2] slice(a), slice={[1:5:2]}"},
    {"dynamic_pad", "%a: tensor<2xf32>, %v: tensor<f32>", "tensor<4xf32>",
     "%o = stablehlo.constant dense<1> : tensor<1xi32>\n%z = stablehlo.constant dense<0> : "
     "tensor<1xi32>\n"
     "%r = stablehlo.dynamic_pad %a, %v, %o, %o, %z : (tensor<2xf32>, tensor<f32>, "
     "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xf32>",
     "%o = stablehlo.constant dense<1> : tensor<1xi32>\n%z = stablehlo.constant dense<0> : "
     "tensor<1xi32>\n"
     "%r = \"stablehlo.dynamic_pad\"(%a, %v, %o, %o, %z) : (tensor<2xf32>, tensor<f32>, "
     "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xf32>",
     "o = s32[1] constant({1})\nz = s32[1] constant({0})\nROOT r = f32[4] pad(a, v), "
     "padding=1_1_0"},
};

}  // namespace

std::vector<OpCase> shape_cases() { return kShapeCases; }

}  // namespace gspmd::stablehlo
