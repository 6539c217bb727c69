#pragma once

// Products of matrices and tensors, and triangular systems.

#include <cstdint>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// The product of the matrices in the last two dims; dims before broadcast, and vectors are a row on
// the left and a column on the right. As NumPy's.
GSPMD_API Tensor matmul(Operand a, Operand b);

// Which dims of two tensors are paired, as jax.lax.dot_general's dimension_numbers.
struct DotGeneralOptions {
  // --- Dims summed over, and dims that the operands have together; pairs, in order
  std::vector<int64_t> a_contracting = {}, b_contracting = {};
  std::vector<int64_t> a_batch = {}, b_batch = {};
};
// Result: batch dims, the other dims of a, the other dims of b.
GSPMD_API Tensor dot_general(Operand a, Operand b, const DotGeneralOptions& dims);

// Sum over the last `axes` dims of a and the first of b, or over the dims listed, in pairs.
GSPMD_API Tensor tensordot(Operand a, Operand b, int64_t axes = 2);
GSPMD_API Tensor tensordot(Operand a, Operand b, std::vector<int64_t> a_axes,
                           std::vector<int64_t> b_axes);
GSPMD_API Tensor outer(Operand a,
                       Operand b);  // each element of a times each of b, [m], [n] -> [m,n]
GSPMD_API Tensor kron(Operand a, Operand b);  // each element of a times all of b, in blocks

// Rows of `a` [m,k] in groups, each times a matrix of its own of `b` [groups,k,n]: [m,n].
// `group_sizes` [groups], integers: how many rows each group has, one behind the other; rows behind
// the last group give 0. As jax.lax.ragged_dot.
GSPMD_API Tensor ragged_dot(Operand a, Operand b, Operand group_sizes);

// The lower triangular L with L L^H = a, of the matrices in the last two dims; reads their lower
// triangles. NaN where a is not positive definite.
GSPMD_API Tensor cholesky(Operand a);

// The system that triangular_solve() solves.
struct TriangularOptions {
  bool left_side = false;      // a x = b, else x a = b
  bool lower = false;          // which triangle of a is read
  bool transpose_a = false;    // a^T in the place of a
  bool conjugate_a = false;    // of complex a, with transpose_a: a^H
  bool unit_diagonal = false;  // the diagonal is 1 and not read
};
// x of the triangular system, for the matrices in the last two dims; dims before are equal.
GSPMD_API Tensor triangular_solve(Operand a, Operand b, const TriangularOptions& options = {});
// x with L L^H x = b, of L = cholesky(a). As scipy.linalg.cho_solve.
GSPMD_API Tensor solve_cholesky(Operand factor, Operand b);

}  // namespace gspmd
