#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kLinalgAt = f64({3, 5}, 8);
const Array kBatch = f64({3, 2, 3}, 9);
const Array kRight = f64({5, 2}, 10);

// Symmetric matrices whose eigenvalues are above 2, [..., n,n] of [..., n,m].
Tensor positive(Tensor t) {
  const int64_t n = t.dim(-2);
  return einsum("...ij,...kj->...ik", t, t) + eye(n, {.dtype = DType::f64}) * 2.;
}

// Well-conditioned triangles.
Tensor triangle(Tensor t) { return tril(positive(t)); }

std::vector<Case> products() {
  return {
      GSPMD_CASE("matmul", kLinalgAt, matmul(t, sin(transpose(t)))),
      GSPMD_CASE("matmul: of batches", kBatch, matmul(t, transpose(t(0)))),
      GSPMD_CASE("matmul: of vectors", kLinalgAt, matmul(t, t(0)) * matmul(t(1), t(2))),
      GSPMD_CASE("dot_general", kLinalgAt,
                 dot_general(t, t * t, {.a_contracting = {1}, .b_contracting = {1}})),
      GSPMD_CASE("dot_general: of batches", kBatch,
                 dot_general(
                     t, sin(t),
                     {.a_contracting = {1}, .b_contracting = {1}, .a_batch = {0}, .b_batch = {0}})),
      GSPMD_CASE("tensordot", kLinalgAt, tensordot(t, t * t, {0}, {0})),
      GSPMD_CASE("tensordot: of the last dims", kBatch, tensordot(t, t(0), 2)),
      GSPMD_CASE("outer", kLinalgAt, outer(t(0), t)),
      GSPMD_CASE("kron", kLinalgAt, kron(t, t(range(0, 2), range(0, 2)))),
      GSPMD_CASE("einsum", kLinalgAt, einsum("ab,cb->ca", t, t * t)),
      GSPMD_CASE("einsum: of a diagonal", f64({3, 3}, 11), einsum("aa->a", t * t)),
      GSPMD_CASE("einsum: of a diagonal that is summed", f64({3, 3}, 22),
                 einsum("bm,mm->b", sin(t), t)),
      GSPMD_CASE("einsum: of four dims", kBatch,
                 einsum("bsm,mnd->bnsd", t, transpose(sin(t), {2, 1, 0}))),
      GSPMD_CASE("einsum: of three", kLinalgAt, einsum("ab,cb,ad->cd", t, sin(t), t)),
      GSPMD_CASE("einsum: of four", kLinalgAt, einsum("ab,cb,ad,ed->ce", t, sin(t), t, t)),
      GSPMD_CASE("einsum: of a list", kBatch, einsum("...ij,...ij,kj->...k", {t, sin(t), t(0)})),
      GSPMD_CASE("ragged_dot", kLinalgAt,
                 ragged_dot(t, stack({transpose(t), sin(transpose(t))}), s32({2}, {1, 2}))),
      GSPMD_CASE(
          "ragged_dot: with rows behind the groups", kLinalgAt,
          ragged_dot(t, stack({constant(kRight) * t(0, 0), constant(kRight)}), s32({2}, {0, 2}))),
  };
}

std::vector<Case> systems() {
  return {
      GSPMD_CASE("cholesky", kLinalgAt, cholesky(positive(t))),
      GSPMD_CASE("cholesky: of batches", kBatch, cholesky(positive(t))),
      GSPMD_CASE("triangular_solve", kLinalgAt,
                 triangular_solve(triangle(t), t, {.left_side = true, .lower = true})),
      GSPMD_CASE("triangular_solve: from the right", kLinalgAt,
                 triangular_solve(transpose(triangle(t)), transpose(t))),
      GSPMD_CASE("triangular_solve: transposed", kBatch,
                 triangular_solve(triangle(t), t,
                                  {.left_side = true, .lower = true, .transpose_a = true})),
      GSPMD_CASE("triangular_solve: of a unit diagonal", kLinalgAt,
                 triangular_solve(triangle(t), t,
                                  {.left_side = true, .lower = true, .unit_diagonal = true})),
      GSPMD_CASE("solve_cholesky", kLinalgAt, solve_cholesky(cholesky(positive(t)), t)),
  };
}

}  // namespace

std::vector<Case> linalg_cases() {
  std::vector<Case> cases = products();
  for (Case& more : systems()) cases.push_back(more);
  return cases;
}

}  // namespace gspmd::test
