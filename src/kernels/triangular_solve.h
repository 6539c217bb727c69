#pragma once

#include "gspmd/base/dtype.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// op(a) x = b of n rows, or x op(a) = b where a is on the right: `systems` columns or rows of x per
// matrix. Of a only the triangle that `lower` names is read, and the diagonal unless it is of ones.
struct TriangularSolve {
  DType dtype = DType::f32;
  int64_t matrices = 1, n = 1, systems = 1;
  bool left_side = true;
  bool lower = true;
  bool transposed = false;  // op(a) is a's transpose
  bool unit_diagonal = false;
};

// Operands: a and b. What an unknown owes is summed in the type of the operands, in the order in
// which the unknowns are found, and taken off every 240 of them. A system's bits do not depend on
// what is solved beside it. `run` is empty for types other than f32 and f64, for results without
// elements, and for matrices of more than 8192 rows.
PreparedKernel prepare_triangular_solve(const TriangularSolve& spec);

}  // namespace gspmd
