#pragma once

#include <cstdint>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// One loop of a product and the steps it makes in the operands a, b and the result c, in elements.
struct GemmLoop {
  int64_t size = 1;
  int64_t a = 0, b = 0, c = 0;
};

// c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]. Each of the four may be several loops
// of any strides; m has no step in b, n none in a, k none in c.
struct GemmSpec {
  DType dtype = DType::f32;
  std::vector<GemmLoop> batch, m, n, k;
};

// Operands a, b; result c. f32 runs on prepared library primitives, other types on blocked loops. Parts
// are ranges of batches or blocks of rows. `run` is empty for types that are not is_loop_dtype, and pred.
GSPMD_API PreparedKernel prepare_gemm(const GemmSpec& spec);

}  // namespace gspmd
