#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("products are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("linalg");
  cases.check("matmul_matrices", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_vectors", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_row", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_column", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_batches", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_broadcast", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_one_batch", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_batched_column", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_batched_row", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_ones", [](Tensor a, Tensor b) { return matmul(a, b); });
  cases.check("matmul_empty", [](Tensor a, Tensor b) { return matmul(a, b); });
  const DotGeneralOptions dims{
      .a_contracting = {2}, .b_contracting = {0}, .a_batch = {0}, .b_batch = {1}};
  cases.check("dot_general", [&](Tensor a, Tensor b) { return dot_general(a, b, dims); });
  cases.check("tensordot", [](Tensor a, Tensor b) { return tensordot(a, b); });
  cases.check("tensordot_pairs", [](Tensor a, Tensor b) {
    return tensordot(a, b, {-1, 0}, {0, 2});
  });
  cases.check("tensordot_none", [](Tensor a, Tensor b) { return tensordot(a, b, 0); });
  cases.check("outer", [](Tensor a, Tensor b) { return outer(a, b); });
  cases.check("kron", [](Tensor a, Tensor b) { return kron(a, b); });
  cases.check("kron_ranks", [](Tensor a, Tensor b) { return kron(a, b); });
  cases.check("ragged_dot", [](Tensor a, Tensor b, Tensor c) { return ragged_dot(a, b, c); });
}

TEST_CASE("triangular systems and factors are those of SciPy", "[api][numpy]") {
  const NumpyCases cases("linalg");
  cases.check("cholesky", [](Tensor x) { return cholesky(x); });
  cases.check("cholesky_complex", [](Tensor x) { return cholesky(x); });
  cases.check("triangular_solve",
              [](Tensor a, Tensor b) { return triangular_solve(a, b, {.lower = false}); });
  cases.check("triangular_solve_left", [](Tensor a, Tensor b) {
    return triangular_solve(a, b, {.left_side = true, .lower = true});
  });
  cases.check("triangular_solve_transposed", [](Tensor a, Tensor b) {
    return triangular_solve(a, b, {.left_side = true, .transpose_a = true, .unit_diagonal = true});
  });
  cases.check("triangular_solve_adjoint", [](Tensor a, Tensor b) {
    return triangular_solve(
        a, b, {.left_side = true, .lower = true, .transpose_a = true, .conjugate_a = true});
  });
  cases.check("solve_cholesky", [](Tensor a, Tensor b) { return solve_cholesky(a, b); });
  cases.check("solve_cholesky_vector", [](Tensor a, Tensor b) { return solve_cholesky(a, b); });
}

TEST_CASE("einsum of any number of operands, and with dots, is that of NumPy", "[api][numpy]") {
  const NumpyCases cases("linalg");
  cases.check("einsum_chain", [](Tensor a, Tensor b, Tensor c, Tensor d) {
    return einsum("ab,bc,cd,d->a", a, b, c, d);
  });
  cases.check("einsum_three",
              [](Tensor a, Tensor b, Tensor c) { return einsum("ab,bc,cd->ad", a, b, c); });
  cases.check("einsum_dots", [](Tensor a, Tensor b) { return einsum("...ab,bc->...ac", a, b); });
  cases.check("einsum_dots_broadcast",
              [](Tensor a, Tensor b) { return einsum("...a,...a->...", a, b); });
  cases.check("einsum_dots_diagonal", [](Tensor x) { return einsum("...ii->...", x); });
  cases.check("einsum_dots_inside",
              [](Tensor a, Tensor b) { return einsum("a...b,b->b...a", a, b); });
  cases.check("einsum_hyperedge",
              [](Tensor a, Tensor b, Tensor c) { return einsum("ab,ac,ad->bcd", a, b, c); });
  cases.check("einsum_lonely", [](Tensor a, Tensor b, Tensor c) {
    return einsum("ab,cd,e->ae", std::vector{a, b, c});
  });
  cases.check("einsum_outer",
              [](Tensor a, Tensor b, Tensor c) { return einsum("a,b,c->cab", a, b, c); });
}
