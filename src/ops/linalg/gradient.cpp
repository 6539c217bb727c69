#include "ops/linalg/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

Node* product(Node* a, Node* b) { return hlo::binary(Opcode::multiply, a, b); }
Node* negated(Node* a) { return hlo::unary(Opcode::negate, a); }

// Of the two last dims.
Node* matrix_transposed(Node* x) {
  Dims order = all_dims(x->rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return hlo::transpose(x, order);
}

Node* matrix_product(Node* a, Node* b) {
  DotDims dims;
  dims.lhs_batch = dims.rhs_batch = all_dims(a->rank() - 2);
  dims.lhs_contracting = {a->rank() - 1};
  dims.rhs_contracting = {b->rank() - 2};
  return hlo::dot(a, b, dims);
}

Node* solve(Node* a, Node* b, TriangularDims dims) {
  Attributes attrs;
  attrs.triangular = std::move(dims);
  return emit(a->parent(), Opcode::triangular_solve, {a, b}, std::move(attrs));
}

// x with what is strictly on one side of the diagonal as it is, the diagonal times `on_diagonal`,
// the rest zero.
Node* triangle(Node* x, bool lower, double on_diagonal) {
  Computation& c = x->parent();
  const Shape places(DType::s32, x->dims());
  Node* const row = hlo::iota(c, places, x->rank() - 2);
  Node* const column = hlo::iota(c, places, x->rank() - 1);
  Node* const zero = zeros_like(*x);
  Node* const diagonal = on_diagonal == 0 ? zero : product(x, hlo::splat(c, x->shape, on_diagonal));
  Node* const rest = hlo::select(hlo::compare(row, column, Direction::eq), diagonal, zero);
  return hlo::select(hlo::compare(row, column, lower ? Direction::gt : Direction::lt), x, rest);
}

// a = l l^H of the lower triangle of a. dl = l p(l^-1 da l^-H), where p takes the lower triangle
// and half of the diagonal; that is transposed, and the two triangles of da are one.
Nodes cholesky(Node& y, Node* c) {
  Node* const q = triangle(matrix_product(matrix_transposed(&y), c), true, 0.5);
  Node* const left = solve(&y, q, {true, true, false, "TRANSPOSE"});
  Node* const both = solve(conjugated(&y), left, {false, true, false, "NO_TRANSPOSE"});
  Node* const sum = hlo::add(both, conjugated(matrix_transposed(both)));
  return {triangle(sum, true, 0.5)};
}

// With m for a as it is read: m x = b or x m = b.
Nodes triangular_solve(Node& y, Node* c) {
  Node* a = y.operand(0);
  const TriangularDims& dims = *y.attrs.triangular;
  const bool adjoint = dims.transpose_a == "ADJOINT";
  const bool transposes = adjoint || dims.transpose_a == "TRANSPOSE";
  TriangularDims back = dims;
  back.transpose_a = transposes ? "NO_TRANSPOSE" : "TRANSPOSE";
  Node* const to_b = solve(adjoint ? conjugated(a) : a, c, back);
  Node* to_a = negated(dims.left_side ? matrix_product(to_b, matrix_transposed(&y))
                                      : matrix_product(matrix_transposed(&y), to_b));
  if (transposes) to_a = matrix_transposed(to_a);
  if (adjoint) to_a = conjugated(to_a);
  return {triangle(to_a, dims.lower, dims.unit_diagonal ? 0 : 1), to_b};
}

Node* transform(Node* x, const char* type, const Dims& lengths, const Shape& shape) {
  Attributes attrs;
  attrs.scalar.edit().fft_type = type;
  attrs.dimensions = lengths;
  return emit(x->parent(), Opcode::fft, {x}, std::move(attrs), shape);
}

// How often each element of half a spectrum is in the whole one.
Node* multiplicities(Node* half, int64_t length) {
  Computation& c = half->parent();
  const int64_t count = half->dims().back();
  Array times = Array::full(Shape(half->shape.dtype, {count}), 2);
  times.set(0, 1);
  if (length % 2 == 0) times.set(count - 1, 1);
  return hlo::broadcast(hlo::constant(c, times), half->dims(), {half->rank() - 1});
}

// Transforms are their own transposes, up to what is cut off or mirrored of a half spectrum.
Nodes fft(Node& y, Node* c) {
  Node* const x = y.operand(0);
  const std::string& type = y.attrs.scalar->fft_type;
  const Dims& lengths = y.attrs.dimensions;
  if (c->shape.elements_count() == 0 || x->shape.elements_count() == 0) return {zeros_like(*x)};
  if (type == "RFFT") {
    std::vector<PaddingDim> padding(c->dims().size());
    padding.back().high = lengths.back() - c->dims().back();
    Node* const whole = hlo::pad(c, hlo::scalar(c->parent(), c->shape.dtype, 0), padding);
    return {hlo::unary(Opcode::real, transform(whole, "FFT", lengths, whole->shape))};
  }
  if (type == "IRFFT") {
    double scale = 1;
    for (const int64_t length : lengths) scale /= static_cast<double>(length);
    Node* const half = transform(c, "RFFT", lengths, x->shape);
    Node* const scaled = product(half, hlo::splat(c->parent(), half->shape, scale));
    return {conjugated(product(scaled, multiplicities(half, lengths.back())))};
  }
  return {transform(c, type.c_str(), lengths, x->shape)};
}

}  // namespace

Nodes cholesky_gradient(Node& node, Node* cotangent) {
  return inexact_only<cholesky>(node, cotangent);
}

// Of the upper triangle: u = l^H of the adjoint.
Node* cholesky_form(Node& node) {
  if (node.attrs.triangular->lower) return nullptr;
  Attributes attrs = node.attrs;
  attrs.triangular.edit().lower = true;
  Node* const lower = emit(node.parent(), Opcode::cholesky,
                           {conjugated(matrix_transposed(node.operand(0)))}, attrs);
  return conjugated(matrix_transposed(lower));
}

Nodes triangular_solve_gradient(Node& node, Node* cotangent) {
  return inexact_only<triangular_solve>(node, cotangent);
}

Nodes fft_gradient(Node& node, Node* cotangent) { return inexact_only<fft>(node, cotangent); }

}  // namespace gspmd
