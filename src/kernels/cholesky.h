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
// not positive definite. Sums are taken in the type of the operand, but those of f32 in f64, and
// rounded once, where f32 would lose digits: where what is left of an element of the diagonal is
// less than 1/64 of it. `run` is empty for types other than f32 and f64, and for matrices of more
// than 8192 rows.
PreparedKernel prepare_cholesky(const Cholesky& spec);

}  // namespace gspmd
