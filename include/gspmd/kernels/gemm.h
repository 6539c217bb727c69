#pragma once

// Matrix products over any strides.

#include <cstdint>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// One loop of a product and the steps it makes in the operands a, b and the result c, in elements.
struct GemmLoop {
  int64_t size = 1;             // iterations
  int64_t a = 0, b = 0, c = 0;  // elements per iteration; 0: the array does not depend on it
};

// c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]. Each of the four may be several
// loops of any strides; m has no step in b, n none in a, k none in c.
struct GemmSpec {
  DType dtype = DType::f32;              // of a and b
  DType result = DType::f32;             // of c: dtype, or f32 where dtype is bf16 or f16
  std::vector<GemmLoop> batch, m, n, k;  // loops of each kind, major first
};

// Operands a, b; result c. f32 runs on prepared library primitives, large products on one that
// reads operand b as a first stage lays it out for all rows, or, where vectors have 8 lanes or a of
// a batch is transposed, on blocks of registers of our own (docs/design/0042); bf16 on the library
// too where that is quicker than f32; other 16-bit floats are widened to f32 on the way, and all
// of them are summed in f32 and rounded once. f64 and integers of 32 bits run on our blocks of
// registers, small products and other types on loops. Parts are ranges of
// batches, or blocks of rows and columns. `run` is empty for types that are not is_loop_dtype,
// pred, and other types of the result.
GSPMD_API PreparedKernel prepare_gemm(const GemmSpec& spec);

}  // namespace gspmd
