#pragma once

#include "gspmd/base/dtype.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Matrices of n rows, one after the other: a = l l^T of the lower triangle or a = u^T u of the
// upper one; the other one is not read.
struct Cholesky {
  DType dtype = DType::f32;
  int64_t matrices = 1, n = 1;
  bool lower = true;
};

// Operand: matrices. The other triangle of a result is zero; all of it is NaN where the matrix is
// not positive definite. Sums are taken in f64 and rounded once. `run` is empty for types other
// than f32 and f64, and for matrices of which a copy in f64 is more than 512 MiB.
PreparedKernel prepare_cholesky(const Cholesky& spec);

}  // namespace gspmd
