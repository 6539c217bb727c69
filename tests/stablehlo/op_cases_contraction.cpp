#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {

namespace {

const std::vector<OpCase> kCases = {
    {"dot_general", "%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>", "tensor<2x3x5xf32>",
     "%r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x "
     "[1], precision = [DEFAULT, HIGHEST] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> "
     "tensor<2x3x5xf32>",
     "%r = \"stablehlo.dot_general\"(%a, %b) <{dot_dimension_numbers = "
     "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
     "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = "
     "[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3x4xf32>, "
     "tensor<2x4x5xf32>) -> tensor<2x3x5xf32>",
     "ROOT r = f32[2,3,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={default,highest}"},
    {"dot_general of types that add up in another", "%a: tensor<2x3xi8>, %b: tensor<3xi8>",
     "tensor<2xi32>",
     "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xi8>, "
     "tensor<3xi8>) -> tensor<2xi32>",
     "%r = \"stablehlo.dot_general\"(%a, %b) <{dot_dimension_numbers = "
     "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : "
     "(tensor<2x3xi8>, tensor<3xi8>) -> tensor<2xi32>",
     "ROOT r = s32[2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"dot_general by an algorithm", "%a: tensor<2xf32>, %b: tensor<2xf32>", "tensor<f32>",
     "%r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0], algorithm = "
     "<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, "
     "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, "
     "allow_imprecise_accumulation = false> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>",
     "%r = \"stablehlo.dot_general\"(%a, %b) <{algorithm = "
     "#stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, "
     "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
     "num_primitive_operations = 3, allow_imprecise_accumulation = false>, dot_dimension_numbers "
     "= #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>}> : "
     "(tensor<2xf32>, tensor<2xf32>) -> tensor<f32>",
     "ROOT r = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
     "algorithm=dot_tf32_tf32_f32_x3"},
    {"dot", "%a: tensor<2x3xf32>, %b: tensor<3x4xf32>", "tensor<2x4xf32>",
     "%r = stablehlo.dot %a, %b, precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, "
     "tensor<3x4xf32>) -> tensor<2x4xf32>",
     "%r = \"stablehlo.dot\"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
     "ROOT r = f32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"einsum", "%a: tensor<2x3xf32>, %b: tensor<3x4xf32>", "tensor<4x2xf32>",
     "%r = stablehlo.einsum %a, %b, config = \"ab,bc->ca\" : (tensor<2x3xf32>, tensor<3x4xf32>) "
     "-> tensor<4x2xf32>",
     "%r = \"stablehlo.einsum\"(%a, %b) <{einsum_config = \"ab,bc->ca\"}> : (tensor<2x3xf32>, "
     "tensor<3x4xf32>) -> tensor<4x2xf32>",
     "d = f32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\nROOT r = "
     "f32[4,2] transpose(d), dimensions={1,0}"},
    {"unary_einsum", "%a: tensor<2x3xf32>", "tensor<3x2xf32>",
     "%r = stablehlo.unary_einsum %a, config = \"ab->ba\" : (tensor<2x3xf32>) -> tensor<3x2xf32>",
     "%r = \"stablehlo.unary_einsum\"(%a) <{einsum_config = \"ab->ba\"}> : (tensor<2x3xf32>) -> "
     "tensor<3x2xf32>",
     "ROOT r = f32[3,2] transpose(a), dimensions={1,0}"},
    {"convolution", "%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x2x6xf32>", "tensor<1x4x7x6xf32>",
     "%r = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
     "window = {stride = [2, 1], pad = [[1, 1], [0, 1]], reverse = [0, 1]} {batch_group_count = "
     "1 : i64, feature_group_count = 2 : i64} : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> "
     "tensor<1x4x7x6xf32>",
     "%r = \"stablehlo.convolution\"(%x, %k) <{batch_group_count = 1 : i64, dimension_numbers = "
     "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, "
     "padding = dense<[[1, 1], [0, 1]]> : tensor<2x2xi64>, window_reversal = array<i1: false, "
     "true>, window_strides = array<i64: 2, 1>}> : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> "
     "tensor<1x4x7x6xf32>",
     "ROOT r = f32[1,4,7,6] convolution(x, k), window={size=3x3 stride=2x1 pad=1_1x0_1 "
     "rhs_reversal=0x1}, dim_labels=b01f_01io->b01f, feature_group_count=2"},
    {"convolution of the older form", "%x: tensor<2x1x5xf32>, %k: tensor<1x1x3xf32>",
     "tensor<2x1x3xf32>",
     "%r = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = "
     "{} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = "
     "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x1x5xf32>, "
     "tensor<1x1x3xf32>) -> tensor<2x1x3xf32>",
     "%r = \"stablehlo.convolution\"(%x, %k) {batch_group_count = 1 : i64, dimension_numbers = "
     "#stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 1, "
     "input_spatial_dimensions = [2], kernel_output_feature_dimension = 0, "
     "kernel_input_feature_dimension = 1, kernel_spatial_dimensions = [2], "
     "output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = "
     "[2]>, feature_group_count = 1 : i64, window_strides = dense<1> : tensor<1xi64>} : "
     "(tensor<2x1x5xf32>, tensor<1x1x3xf32>) -> tensor<2x1x3xf32>",
     "ROOT r = f32[2,1,3] convolution(x, k), window={size=3}, dim_labels=bf0_oi0->bf0"},
    {"dynamic_conv", "%x: tensor<2x1x5xf32>, %k: tensor<1x1x3xf32>", "tensor<2x1x5xf32>", "",
     "%p = stablehlo.constant dense<1> : tensor<1x2xi32>\n%r = \"stablehlo.dynamic_conv\"(%x, "
     "%k, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, "
     "i, 0]->[b, f, 0]>, feature_group_count = 1 : i64}> : (tensor<2x1x5xf32>, "
     "tensor<1x1x3xf32>, tensor<1x2xi32>) -> tensor<2x1x5xf32>",
     "p = s32[1,2] constant({{1,1}})\nROOT r = f32[2,1,5] convolution(x, k), window={size=3 "
     "pad=1_1}, dim_labels=bf0_oi0->bf0"},
    {"cholesky", "%a: tensor<3x3xf32>", "tensor<3x3xf32>",
     "%r = stablehlo.cholesky %a, lower = true : tensor<3x3xf32>",
     "%r = \"stablehlo.cholesky\"(%a) <{lower = true}> : (tensor<3x3xf32>) -> tensor<3x3xf32>",
     "ROOT r = f32[3,3] cholesky(a), lower=true"},
    {"triangular_solve", "%a: tensor<3x3xf32>, %b: tensor<3x2xf32>", "tensor<3x2xf32>", "",
     "%r = \"stablehlo.triangular_solve\"(%a, %b) <{left_side = true, lower = true, transpose_a "
     "= #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, "
     "tensor<3x2xf32>) -> tensor<3x2xf32>",
     "ROOT r = f32[3,2] triangular-solve(a, b), left_side=true, lower=true, "
     "transpose_a=NO_TRANSPOSE"},
    {"fft", "%a: tensor<16xf32>", "tensor<9xcomplex<f32>>",
     "%r = stablehlo.fft %a, type = RFFT, length = [16] : (tensor<16xf32>) -> "
     "tensor<9xcomplex<f32>>",
     "%r = \"stablehlo.fft\"(%a) <{fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type "
     "RFFT>}> : (tensor<16xf32>) -> tensor<9xcomplex<f32>>",
     "ROOT r = c64[9] fft(a), fft_type=RFFT, fft_length={16}"},
    {"batch_norm_inference", "%x: tensor<4x2xf32>, %s: tensor<2xf32>", "tensor<4x2xf32>", "",
     "%r = \"stablehlo.batch_norm_inference\"(%x, %s, %s, %s, %s) <{epsilon = 1.000000e-03 : "
     "f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, "
     "tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>",
     "ROOT r = f32[4,2] batch-norm-inference(x, s, s, s, s), epsilon=0.0010000000474974513, "
     "feature_index=1"},
    {"batch_norm_training", "%x: tensor<4x2xf32>, %s: tensor<2xf32>", "tensor<4x2xf32>", "",
     "%r, %m, %v = \"stablehlo.batch_norm_training\"(%x, %s, %s) <{epsilon = 0.5 : f32, "
     "feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> "
     "(tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)",
     "t = (f32[4,2], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.5, "
     "feature_index=1\nROOT r = f32[4,2] get-tuple-element(t), index=0"},
    {"batch_norm_grad", "%x: tensor<4x2xf32>, %s: tensor<2xf32>", "tensor<2xf32>", "",
     "%g:2, %r = \"stablehlo.batch_norm_grad\"(%x, %s, %s, %s, %x) <{epsilon = 0.5 : f32, "
     "feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, "
     "tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)",
     "t = (f32[4,2], f32[2], f32[2]) batch-norm-grad(x, s, s, s, x), epsilon=0.5, "
     "feature_index=1\nROOT r = f32[2] get-tuple-element(t), index=2"},
};

}  // namespace

std::vector<OpCase> contraction_cases() { return kCases; }

}  // namespace gspmd::stablehlo
