#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("counted arrays are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("arranging");
  cases.check("arange", [] { return arange(2, 11, 3); });
  cases.check("arange_down", [] { return arange(3, -3, -0.75, DType::f64); });
  cases.check("arange_none", [] { return arange(3, 1); });
  cases.check("linspace", [] { return linspace(-1, 2, 7, {.dtype = DType::f64}); });
  cases.check("linspace_open",
              [] { return linspace(-1, 2, 6, {.endpoint = false, .dtype = DType::f64}); });
  cases.check("linspace_one", [] { return linspace(-1, 2, 1, {.dtype = DType::f64}); });
}

TEST_CASE("arrays are turned, repeated, joined and cut as in NumPy", "[api][numpy]") {
  const NumpyCases cases("arranging");
  cases.check("roll", [](Tensor x) { return roll(x, -9, {0, -1}); });
  cases.check("roll_flat", [](Tensor x) { return roll(x, 4); });
  cases.check("roll_empty", [](Tensor x) { return roll(x, 4, 0); });
  cases.check("flip", [](Tensor x) { return flip(x, {0, -1}); });
  cases.check("flip_all", [](Tensor x) { return flip(x); });
  cases.check("tile", [](Tensor x) { return tile(x, {2, 1, 1, 3}); });
  cases.check("tile_short", [](Tensor x) { return tile(x, {2}); });
  cases.check("repeat", [](Tensor x) { return repeat(x, 3, -2); });
  cases.check("repeat_flat", [](Tensor x) { return repeat(x, 2); });
  cases.check("stack", [](Tensor a, Tensor b) { return stack({a, b}, -1); });
  cases.check("split", [](Tensor x) { return split(x, 5, 1); });
  cases.check("split_places", [](Tensor x) { return split(x, {2, -3, 99}); });
}

TEST_CASE("diagonals and triangles are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("arranging");
  cases.check("tril_0", [](Tensor x) { return tril(x, -1); });
  cases.check("triu_0", [](Tensor x) { return triu(x, -1); });
  cases.check("eye_0", [] { return eye(4, {.columns = 5, .k = -1, .dtype = DType::f64}); });
  cases.check("tri_0", [] { return tri(4, {.columns = 5, .k = -1, .dtype = DType::f64}); });
  cases.check("diagonal_0",
              [](Tensor x) { return diagonal(x, {.offset = -1, .axis1 = -1, .axis2 = 0}); });
  cases.check("diag_0", [](Tensor x) { return diag(x, -1); });
  cases.check("diag_of_vector_0", [](Tensor x) { return diag(x, -1); });
  cases.check("trace_0", [](Tensor x) { return matrix_trace(x, {.offset = -1}); });
  cases.check("tril_1", [](Tensor x) { return tril(x, 0); });
  cases.check("triu_1", [](Tensor x) { return triu(x, 0); });
  cases.check("eye_1", [] { return eye(4, {.columns = 5, .k = 0, .dtype = DType::f64}); });
  cases.check("tri_1", [] { return tri(4, {.columns = 5, .k = 0, .dtype = DType::f64}); });
  cases.check("diagonal_1",
              [](Tensor x) { return diagonal(x, {.offset = 0, .axis1 = -1, .axis2 = 0}); });
  cases.check("diag_1", [](Tensor x) { return diag(x, 0); });
  cases.check("diag_of_vector_1", [](Tensor x) { return diag(x, 0); });
  cases.check("trace_1", [](Tensor x) { return matrix_trace(x, {.offset = 0}); });
  cases.check("tril_3", [](Tensor x) { return tril(x, 2); });
  cases.check("triu_3", [](Tensor x) { return triu(x, 2); });
  cases.check("eye_3", [] { return eye(4, {.columns = 5, .k = 2, .dtype = DType::f64}); });
  cases.check("tri_3", [] { return tri(4, {.columns = 5, .k = 2, .dtype = DType::f64}); });
  cases.check("diagonal_3",
              [](Tensor x) { return diagonal(x, {.offset = 2, .axis1 = -1, .axis2 = 0}); });
  cases.check("diag_3", [](Tensor x) { return diag(x, 2); });
  cases.check("diag_of_vector_3", [](Tensor x) { return diag(x, 2); });
  cases.check("trace_3", [](Tensor x) { return matrix_trace(x, {.offset = 2}); });
  cases.check("diagonal_outside", [](Tensor x) { return diagonal(x, {.offset = 9}); });
}
