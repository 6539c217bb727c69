#include "gspmd/base/error.h"
#include "kernels/cholesky.h"
#include "kernels/triangular_solve.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/number_types.h"
#include "ops/common/widen.h"
#include "ops/linalg/gradient.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

using Complex = std::complex<double>;

void check_float(const Node& node, const Shape& shape) {
  if (!is_floating(shape.dtype) && !is_complex(shape.dtype))
    user_error("{}: operand {} has to have floating point or complex elements; convert it first",
               opcode_name(node.opcode()), to_string(shape));
}

// The two minor dims are a square matrix.
void check_square(const Node& node, const Shape& shape) {
  const int64_t rank = shape.rank();
  if (rank < 2 ||
      shape.dims[static_cast<size_t>(rank - 1)] != shape.dims[static_cast<size_t>(rank - 2)])
    user_error("{}: operand {} is no square matrix in its two last dims",
               opcode_name(node.opcode()), to_string(shape));
}

Shape infer_cholesky(const Node& node) {
  check_operand_count(node, 1);
  const Shape& a = array_operand(node, 0);
  check_float(node, a);
  check_square(node, a);
  return Shape(a.dtype, a.dims);
}

Shape infer_triangular_solve(const Node& node) {
  check_operand_count(node, 2);
  const Shape& a = array_operand(node, 0);
  const Shape& b = array_operand(node, 1);
  check_float(node, a);
  check_same_dtype(node, 0, 1);
  check_square(node, a);
  const TriangularDims& triangular = *node.attrs.triangular;
  const std::string& transpose = triangular.transpose_a;
  if (!transpose.empty() && transpose != "NO_TRANSPOSE" && transpose != "TRANSPOSE" &&
      transpose != "ADJOINT")
    user_error("triangular-solve: transpose_a={}; it is NO_TRANSPOSE, TRANSPOSE or ADJOINT",
               transpose);
  if (a.rank() != b.rank())
    user_error("triangular-solve: {} and {} differ in rank", to_string(a), to_string(b));
  const auto rank = static_cast<size_t>(a.rank());
  const size_t shared = triangular.left_side ? rank - 2 : rank - 1;
  for (size_t d = 0; d < rank; ++d)
    if (d < rank - 2 ? a.dims[d] != b.dims[d] : d == shared && a.dims[rank - 1] != b.dims[d])
      user_error("triangular-solve: {} does not fit {} in dim {} (left_side={})", to_string(b),
                 to_string(a), d, triangular.left_side);
  return Shape(b.dtype, b.dims);
}

// Batch dims pass, matrices are whole; of b, the systems pass too.
FactorRule matrix_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const bool solve = node.operands().size() == 2;
  const int64_t rank = node.rank();
  const int64_t systems = node.attrs.triangular->left_side ? rank - 1 : rank - 2;
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    const bool pass = d < rank - 2 || (solve && d == systems);
    const int64_t factor =
        add_factor(rule, node.dim(d), pass ? FactorKind::pass : FactorKind::blocked);
    rule.results[0][at] = rule.operands.back()[at] = factor;
    if (!solve) continue;
    if (d < rank - 2)
      rule.operands[0][at] = factor;
    else
      block_operand(rule, node, 0, d);
  }
  return rule;
}

// Results are split along batch dims and the one that counts right-hand sides, if at all.
Proposals matrix_forward(const Node& node, CompletionMode mode) {
  FactorRule nest = matrix_factors(node);
  for (int64_t& factor : nest.results[0])
    if (nest.factors[static_cast<size_t>(factor)].kind == FactorKind::blocked)
      factor = FactorRule::kNone;
  Proposals proposals = nest_forward(node, mode, std::move(nest));
  std::erase_if(proposals, [&](const ShardingProposal& proposal) {
    return proposal.sharding.is_replicated() &&
           !node.operand(proposal.operand)->sharding->is_replicated();
  });
  return proposals;
}

constexpr CompletionRules kMatrixCompletion{
    .forward = matrix_forward, .speakers = Speakers::all, .operands_confer = true};

// A dense matrix inside an accumulator array.
template <class A>
struct Matrix {
  A* data;
  int64_t row, column;  // strides
  A& operator()(int64_t i, int64_t j) const { return data[i * row + j * column]; }
};

double conjugate(double x) { return x; }
Complex conjugate(Complex x) { return std::conj(x); }
double real_of(double x) { return x; }
double real_of(Complex x) { return x.real(); }

template <class A>
A multiplied(A a, A b) {
  A sum = A(0);
  add_product(sum, a, b);
  return sum;
}

// a = l * l^H in place, reading the lower triangle; false where a is not positive definite.
template <class A>
bool factorize(const Matrix<A>& a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double diagonal = real_of(a(j, j));
    for (int64_t k = 0; k < j; ++k) diagonal -= real_of(multiplied(a(j, k), conjugate(a(j, k))));
    if (!(diagonal > 0)) return false;
    diagonal = std::sqrt(diagonal);
    a(j, j) = A(diagonal);
    for (int64_t i = j + 1; i < n; ++i) {
      A sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= multiplied(a(i, k), conjugate(a(j, k)));
      a(i, j) = sum / diagonal;
    }
  }
  return true;
}

template <class F>
void visit_matrix_type(DType dtype, F&& f) {
  visit_number(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_float_v<T> || is_complex_v<T>) f(tag);
  });
}

// The other triangle is zero. All is NaN where the matrix is not positive definite.
Value evaluate_cholesky(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  const int64_t n = x.dims().back();
  const bool lower = context.node.attrs.triangular->lower;
  visit_matrix_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ProductAccumulator<T>;
    std::vector<A> values = to_accumulators<A>(x);
    const std::span<T> out = result.data<T>();
    for (int64_t first = 0; first < x.size(); first += n * n) {
      // u^H u of the upper triangle is l l^H of the transpose of its conjugate.
      const Matrix<A> a{values.data() + first, lower ? n : 1, lower ? 1 : n};
      const Matrix<T> l{out.data() + first, a.row, a.column};
      if (!lower)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j <= i; ++j) a(i, j) = conjugate(a(i, j));
      const bool positive = factorize(a, n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          if (!positive)
            l(i, j) = from_accumulator<T>(A(std::numeric_limits<double>::quiet_NaN()));
          else if (j <= i)
            l(i, j) = from_accumulator<T>(lower ? a(i, j) : conjugate(a(i, j)));
        }
    }
  });
  return {result, {}, false};
}

// Solves a x = b for each of `systems` columns of b, `a` triangular as `forward` says.
template <class A>
void substitute(const Matrix<A>& a, const Matrix<A>& b, int64_t n, int64_t systems, bool forward,
                bool unit_diagonal) {
  for (int64_t s = 0; s < systems; ++s)
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = forward ? step : n - 1 - step;
      A sum = b(i, s);
      for (int64_t k = forward ? 0 : i + 1; k < (forward ? i : n); ++k)
        sum -= multiplied(a(i, k), b(k, s));
      b(i, s) = unit_diagonal ? sum : sum / a(i, i);
    }
}

Value evaluate_triangular_solve(const EvalContext& context) {
  const Array& left = context.operands[0].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  const TriangularDims& triangular = *context.node.attrs.triangular;
  const int64_t n = left.dims().back();
  const auto rank = static_cast<size_t>(context.node.rank());
  const int64_t rows = result.dims()[rank - 2], columns = result.dims()[rank - 1];
  const bool transposed =
      triangular.transpose_a == "TRANSPOSE" || triangular.transpose_a == "ADJOINT";
  // x op(a) = b is op(a)^T x^T = b^T.
  const bool flipped = transposed == triangular.left_side;
  visit_matrix_type(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ProductAccumulator<T>;
    std::vector<A> a = to_accumulators<A>(left);
    std::vector<A> b = to_accumulators<A>(context.operands[1].array);
    if (triangular.transpose_a == "ADJOINT")
      for (A& value : a) value = conjugate(value);
    const int64_t batches = left.size() / (n * n);
    for (int64_t i = 0; i < batches; ++i) {
      const Matrix<A> matrix{a.data() + i * n * n, flipped ? 1 : n, flipped ? n : 1};
      const Matrix<A> right{b.data() + i * rows * columns, triangular.left_side ? columns : 1,
                            triangular.left_side ? 1 : columns};
      substitute(matrix, right, n, triangular.left_side ? columns : rows,
                 triangular.lower != flipped, triangular.unit_diagonal);
    }
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = from_accumulator<T>(b[i]);
  });
  return {result, {}, false};
}

PreparedKernel lower_cholesky(const Node& node) {
  const Shape& a = node.shape;
  const int64_t n = a.dims.back();
  if (a.elements_count() == 0) return {};
  return prepare_cholesky({a.dtype, a.elements_count() / (n * n), n, node.attrs.triangular->lower});
}

PreparedKernel lower_triangular_solve(const Node& node) {
  const Shape& b = node.shape;
  if (b.elements_count() == 0) return {};
  const TriangularDims& triangular = *node.attrs.triangular;
  const int64_t n = node.operand(0)->shape.dims.back();
  const int64_t systems = b.dims[static_cast<size_t>(b.rank() - (triangular.left_side ? 1 : 2))];
  return prepare_triangular_solve(
      {.dtype = b.dtype,
       .matrices = b.elements_count() / (n * systems),
       .n = n,
       .systems = systems,
       .left_side = triangular.left_side,
       .lower = triangular.lower,
       .transposed = triangular.transpose_a == "TRANSPOSE" || triangular.transpose_a == "ADJOINT",
       .unit_diagonal = triangular.unit_diagonal});
}

int64_t cholesky_flops(const Node& node) {
  return saturating_multiply(node.shape.elements_count(),
                             node.rank() > 0 ? node.dims().back() / 3 : 0);
}
int64_t triangular_solve_flops(const Node& node) {
  return saturating_multiply(node.shape.elements_count(), node.operand(0)->dims().back());
}

const OpInfo kLinalgRows[] = {
    {.opcode = Opcode::cholesky,
     .operands = {1, 1},
     .infer = infer_cholesky,
     .factors = matrix_factors,
     .evaluate = any_width<evaluate_cholesky>,
     .gradient = cholesky_gradient,
     .differentiable_form = cholesky_form,
     .completion = kMatrixCompletion,
     .lower = lower_cholesky,
     .flops = cholesky_flops},
    {.opcode = Opcode::triangular_solve,
     .operands = {2, 2},
     .infer = infer_triangular_solve,
     .factors = matrix_factors,
     .evaluate = any_width<evaluate_triangular_solve>,
     .gradient = triangular_solve_gradient,
     .completion = kMatrixCompletion,
     .lower = lower_triangular_solve,
     .flops = triangular_solve_flops},
};

}  // namespace

std::span<const OpInfo> linalg_rows() { return kLinalgRows; }

}  // namespace gspmd
