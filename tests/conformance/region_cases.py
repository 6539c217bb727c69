"""Regions of more than one op or value: variadic windows, scatters and reductions, functions called inside."""

import numpy as np

from element_types import C64, F32, I1, I32
from elementwise_cases import seeded
from module_text import Case, Value
from structure_cases import exact


def variadic_window():
    """The place of the largest element of each window, as select_and_gather_add computes it."""
    rng = seeded("variadic window")
    a = rng.permutation(24).reshape(4, 6).astype(np.float32)
    b = rng.normal(size=(4, 6)).astype(np.float32)
    x, y = Value(F32, a), Value(F32, b)
    wanted = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32)
    for i in range(2):
        for j in range(4):
            part, other = a[2 * i:2 * i + 2, j:j + 3], b[2 * i:2 * i + 2, j:j + 3]
            at = np.unravel_index(part.argmax(), part.shape)
            wanted[0][i, j], wanted[1][i, j] = part[at], other[at]
    text = """%n = stablehlo.constant dense<0xFF800000> : tensor<f32>
%z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
%r:2 = "stablehlo.reduce_window"($0, $1, %n, %z) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
  %0 = stablehlo.compare  GE, %a, %c,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = stablehlo.select %0, %a, %c : tensor<i1>, tensor<f32>
  %2 = stablehlo.select %0, %b, %d : tensor<i1>, tensor<f32>
  stablehlo.return %1, %2 : tensor<f32>, tensor<f32>
}) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)"""
    yield Case("reduce_window_variadic", [x, y], text, [Value(F32, w) for w in wanted], 0)


def calls_in_regions():
    rng = seeded("logaddexp")
    a = rng.normal(size=(3, 5)).astype(np.float32)
    wanted = np.logaddexp.accumulate(a.astype(np.float64), axis=1)
    function = """  func.func private @logaddexp(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.maximum %arg0, %arg1 : tensor<f32>
    %1 = stablehlo.subtract %arg0, %arg1 : tensor<f32>
    %2 = stablehlo.compare  NE, %1, %1,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.add %arg0, %arg1 : tensor<f32>
    %4 = stablehlo.abs %1 : tensor<f32>
    %5 = stablehlo.negate %4 : tensor<f32>
    %6 = stablehlo.exponential %5 : tensor<f32>
    %7 = stablehlo.log_plus_one %6 : tensor<f32>
    %8 = stablehlo.add %0, %7 : tensor<f32>
    %9 = stablehlo.select %2, %3, %8 : tensor<i1>, tensor<f32>
    return %9 : tensor<f32>
  }
"""
    text = """%n = stablehlo.constant dense<0xFF800000> : tensor<f32>
%r = "stablehlo.reduce_window"($0, %n) <{padding = dense<[[0, 0], [4, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 5>}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %0 = func.call @logaddexp(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  stablehlo.return %0 : tensor<f32>
}) : (tensor<3x5xf32>, tensor<f32>) -> tensor<3x5xf32>"""
    yield Case("cumlogsumexp", [Value(F32, a)], text, Value(F32, wanted), rtol=1e-6, atol=1e-6, functions=function)
    text = """%z = stablehlo.constant dense<0xFF800000> : tensor<f32>
%r = stablehlo.reduce($0 init: %z) across dimensions = [1] : (tensor<3x5xf32>, tensor<f32>) -> tensor<3xf32>
 reducer(%a: tensor<f32>, %b: tensor<f32>)  {
  %0 = func.call @logaddexp(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  stablehlo.return %0 : tensor<f32>
}"""
    yield Case("reduce_logsumexp", [Value(F32, a)], text, Value(F32, wanted[:, -1]), rtol=1e-6, atol=1e-6, functions=function)


def complex_sort():
    rng = seeded("complex sort")
    z = (rng.integers(0, 3, 30) + 1j * rng.integers(0, 5, 30)).astype(np.complex64)
    order = np.lexsort((z.imag, z.real))
    c = "tensor<complex<f32>>"
    text = f"""%r = "stablehlo.sort"($0) <{{dimension = 0 : i64, is_stable = true}}> ({{
^bb0(%a: {c}, %b: {c}):
  %0 = stablehlo.real %a : ({c}) -> tensor<f32>
  %1 = stablehlo.imag %a : ({c}) -> tensor<f32>
  %2 = stablehlo.real %b : ({c}) -> tensor<f32>
  %3 = stablehlo.imag %b : ({c}) -> tensor<f32>
  %4 = stablehlo.compare  LT, %0, %2,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %5 = stablehlo.compare  EQ, %0, %2,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %6 = stablehlo.compare  LT, %1, %3,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %7 = stablehlo.select %5, %6, %4 : tensor<i1>, tensor<i1>
  stablehlo.return %7 : tensor<i1>
}}) : (tensor<30xcomplex<f32>>) -> tensor<30xcomplex<f32>>"""
    yield Case("sort_complex", [Value(C64, z)], text, Value(C64, z[order]))


def variadic_scatter():
    a, b = Value(F32, np.zeros(6)), Value(I32, np.arange(6))
    i = Value(I32, [[1], [4], [1], [9]])
    u, v = Value(F32, [1, 2, 3, 4]), Value(I32, [10, 20, 30, 40])
    wanted = [Value(F32, [0, 4, 0, 0, 2, 0]), Value(I32, [0, 30, 2, 3, 20, 5])]
    text = """%r:2 = "stablehlo.scatter"($0, $1, $2, $3, $4) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
  %0 = stablehlo.add %a, %c : tensor<f32>
  %1 = stablehlo.maximum %b, %d : tensor<i32>
  stablehlo.return %0, %1 : tensor<f32>, tensor<i32>
}) : (tensor<6xf32>, tensor<6xi32>, tensor<4x1xi32>, tensor<4xf32>, tensor<4xi32>) -> (tensor<6xf32>, tensor<6xi32>)"""
    yield Case("scatter_variadic", [a, b, i, u, v], text, wanted, 0)


def truth_products():
    rng = seeded("truth")
    a, b = rng.integers(0, 2, (3, 4)).astype(bool), rng.integers(0, 2, (4, 5)).astype(bool)
    yield exact("dot_i1", [Value(I1, a), Value(I1, b)], "stablehlo.dot_general $0, $1, contracting_dims = [1] x [0]",
                Value(I1, (a[:, :, None] & b[None]).any(1)))


def all_cases():
    for group in (variadic_window, calls_in_regions, complex_sort, variadic_scatter, truth_products):
        yield from group()
