#include "gspmd/api/linalg.h"

#include <algorithm>

#include "api/contraction.h"
#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

std::pair<Node*, Node*> factors(const Operand& a, const Operand& b) {
  const auto nodes = nodes_of(a, b);
  need_number(nodes.first);
  return nodes;
}

// Batch dims of equal place from the end have equal names, which are no letters.
Labels matrix_labels(const Node* x, char last, char before) {
  Labels labels(1, last);
  if (x->rank() > 1) labels.insert(labels.begin(), before);
  for (int64_t i = 2; i < x->rank(); ++i) labels.insert(labels.begin(), static_cast<char>('0' + i));
  return labels;
}

// Without the batch dims of size 1 that the other operand has larger.
Labelled without_stretched(Labelled x, const Labelled& other) {
  Dims dims;
  Labels labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const size_t at = other.labels.find(x.labels[i]);
    const int64_t size = x.node->dims()[i];
    if (size == 1 && at != Labels::npos && other.node->dims()[at] != 1) continue;
    dims.push_back(size);
    labels += x.labels[i];
  }
  if (labels != x.labels) x.node = hlo::reshape(x.node, dims);
  x.labels = labels;
  return x;
}

void check_matmul(const Node* a, const Node* b) {
  for (const Node* x : {a, b})
    if (x->rank() == 0) call_error("{} has no dims; multiply by numbers with *", describe(x));
  const int64_t rows = b->dim(std::max<int64_t>(b->rank() - 2, 0));
  if (a->dim(a->rank() - 1) != rows)
    call_error("the last dim of {} is {}, dim {} of {} is {}; they must be equal", describe(a),
               a->dim(a->rank() - 1), std::max<int64_t>(b->rank() - 2, 0), describe(b), rows);
  for (int64_t i = 3; i <= std::min(a->rank(), b->rank()); ++i) {
    const int64_t x = a->dim(a->rank() - i), y = b->dim(b->rank() - i);
    if (x != y && x != 1 && y != 1)
      call_error(
          "batch dims of {} and {} do not broadcast: dim {} from the end is {} and {}; sizes "
          "must be equal or 1",
          describe(a), describe(b), i, x, y);
  }
}

Node* matrix_product(Node* a, Node* b) {
  check_matmul(a, b);
  Labelled left{a, matrix_labels(a, 'k', 'm')};
  Labelled right{b, b->rank() == 1 ? "k" : matrix_labels(b, 'n', 'k')};
  const Labels& batches = a->rank() > b->rank() ? left.labels : right.labels;
  Labels result;
  for (const char label : batches)
    if (label < 'a') result += label;
  if (a->rank() > 1) result += 'm';
  if (b->rank() > 1) result += 'n';
  const Labelled whole_left = left;
  left = without_stretched(left, right);
  right = without_stretched(right, whole_left);
  return contract(left, right, result);
}

}  // namespace

Tensor matmul(Operand a, Operand b) {
  return call("matmul", a.site(), [&] {
    const auto [left, right] = factors(a, b);
    return tensor_of(matrix_product(left, right));
  });
}

namespace {

Dims axes_in_order(const std::vector<int64_t>& axes, const Node* x) {
  Dims result;
  for (const int64_t axis : axes) result.push_back(checked_axis(axis, x));
  checked_axes(axes, x);
  return result;
}

void check_paired(const Node* a, const Dims& left, const Node* b, const Dims& right,
                  const char* what) {
  if (left.size() != right.size())
    call_error("{} {} dims of {} and {} of {}; give pairs", left.size(), what, describe(a),
               right.size(), describe(b));
  for (size_t i = 0; i < left.size(); ++i)
    if (a->dim(left[i]) != b->dim(right[i]))
      call_error("{} dim {} of {} is {}, dim {} of {} is {}; they must be equal", what, left[i],
                 describe(a), a->dim(left[i]), right[i], describe(b), b->dim(right[i]));
}

void check_apart(const Dims& some, const Dims& others, const Node* x) {
  for (const int64_t d : some)
    if (std::find(others.begin(), others.end(), d) != others.end())
      call_error("dim {} of {} is contracting and batch; name it once", d, describe(x));
}

Node* general_product(Node* a, Node* b, const DotGeneralOptions& options) {
  DotDims dims;
  dims.lhs_batch = axes_in_order(options.a_batch, a);
  dims.rhs_batch = axes_in_order(options.b_batch, b);
  dims.lhs_contracting = axes_in_order(options.a_contracting, a);
  dims.rhs_contracting = axes_in_order(options.b_contracting, b);
  check_paired(a, dims.lhs_batch, b, dims.rhs_batch, "batch");
  check_paired(a, dims.lhs_contracting, b, dims.rhs_contracting, "contracting");
  check_apart(dims.lhs_batch, dims.lhs_contracting, a);
  check_apart(dims.rhs_batch, dims.rhs_contracting, b);
  return hlo::dot(a, b, dims);
}

}  // namespace

Tensor dot_general(Operand a, Operand b, const DotGeneralOptions& dims) {
  return call("dot_general", a.site(), [&] {
    const auto [left, right] = factors(a, b);
    return tensor_of(general_product(left, right, dims));
  });
}

Tensor tensordot(Operand a, Operand b, int64_t axes) {
  return call("tensordot", a.site(), [&] {
    const auto [left, right] = factors(a, b);
    if (axes < 0 || axes > left->rank() || axes > right->rank())
      call_error("{} axes of {} and {} are wrong; give 0 to {}", axes, describe(left),
                 describe(right), std::min(left->rank(), right->rank()));
    DotGeneralOptions dims;
    for (int64_t i = 0; i < axes; ++i) {
      dims.a_contracting.push_back(left->rank() - axes + i);
      dims.b_contracting.push_back(i);
    }
    return tensor_of(general_product(left, right, dims));
  });
}

Tensor tensordot(Operand a, Operand b, std::vector<int64_t> a_axes, std::vector<int64_t> b_axes) {
  return call("tensordot", a.site(), [&] {
    const auto [left, right] = factors(a, b);
    return tensor_of(general_product(
        left, right, {.a_contracting = std::move(a_axes), .b_contracting = std::move(b_axes)}));
  });
}

Tensor outer(Operand a, Operand b) {
  return call("outer", a.site(), [&] {
    const auto [left, right] = factors(a, b);
    const int64_t rows = left->shape.elements_count(), columns = right->shape.elements_count();
    Node* x = left->rank() == 1 ? left : hlo::reshape(left, {rows});
    Node* y = right->rank() == 1 ? right : hlo::reshape(right, {columns});
    return tensor_of(
        multiply(hlo::broadcast(x, {rows, columns}, {0}), hlo::broadcast(y, {rows, columns}, {1})));
  });
}

Tensor kron(Operand a, Operand b) {
  return call("kron", a.site(), [&] {
    auto [left, right] = factors(a, b);
    const int64_t rank = std::max(left->rank(), right->rank());
    const auto filled = [&](Node* x) {
      Dims dims = x->dims();
      dims.insert(dims.begin(), static_cast<size_t>(rank - x->rank()), 1);
      return dims == x->dims() ? x : hlo::reshape(x, dims);
    };
    left = filled(left);
    right = filled(right);
    Dims both, of_left, of_right, result;
    for (int64_t i = 0; i < rank; ++i) {
      both.insert(both.end(), {left->dim(i), right->dim(i)});
      of_left.push_back(2 * i);
      of_right.push_back(2 * i + 1);
      result.push_back(left->dim(i) * right->dim(i));
    }
    return tensor_of(hlo::reshape(
        multiply(hlo::broadcast(left, both, of_left), hlo::broadcast(right, both, of_right)),
        result));
  });
}

Tensor ragged_dot(Operand a, Operand b, Operand group_sizes) {
  return call("ragged_dot", a.site(), [&] {
    const auto [rows, matrices] = factors(a, b);
    Node* sizes = node_of(group_sizes);
    need_integer(sizes, "group sizes");
    if (rows->rank() != 2 || matrices->rank() != 3 || sizes->rank() != 1)
      call_error("{}, {} and {} have ranks {}, {} and {}; give [rows,k], [groups,k,n] and [groups]",
                 describe(rows), describe(matrices), describe(sizes), rows->rank(),
                 matrices->rank(), sizes->rank());
    if (rows->dim(1) != matrices->dim(1))
      call_error("dim 1 of {} is {}, dim 1 of {} is {}; they must be equal", describe(rows),
                 rows->dim(1), describe(matrices), matrices->dim(1));
    if (matrices->dim(0) != sizes->dim(0))
      call_error("{} has {} groups, {} has {}; they must be equal", describe(matrices),
                 matrices->dim(0), describe(sizes), sizes->dim(0));
    Attributes attrs;
    attrs.dot = DotDims{.lhs_contracting = {1}, .rhs_contracting = {1}};
    attrs.ragged = RaggedDotDims{{0}, {0}};
    return tensor_of(emit(rows->parent(), Opcode::ragged_dot, {rows, matrices, sizes},
                          std::move(attrs),
                          Shape(rows->shape.dtype, {rows->dim(0), matrices->dim(2)})));
  });
}

namespace {

void check_square(const Node* x) {
  check_needs(x, Needs::analytic);
  const int64_t rank = x->rank();
  if (rank < 2 || x->dim(rank - 1) != x->dim(rank - 2))
    call_error("{} is no square matrix in its last two dims", describe(x));
}

Node* triangular_system(Node* a, Node* b, const TriangularOptions& options) {
  check_square(a);
  const int64_t rank = a->rank();
  const int64_t shared = options.left_side ? rank - 2 : rank - 1;
  bool fits = b->rank() == rank && b->dim(shared) == a->dim(rank - 1);
  for (int64_t i = 0; fits && i < rank - 2; ++i) fits = a->dim(i) == b->dim(i);
  if (!fits)
    call_error(
        "{} does not fit {}: dim {} of the right side is {}, and the dims before the last two "
        "are equal",
        describe(b), describe(a), shared, a->dim(rank - 1));
  if (options.conjugate_a && !options.transpose_a)
    call_error("conjugate_a goes with transpose_a; conj(a) alone");
  Attributes attrs;
  attrs.triangular = TriangularDims{options.left_side, options.lower, options.unit_diagonal,
                                    !options.transpose_a  ? "NO_TRANSPOSE"
                                    : options.conjugate_a ? "ADJOINT"
                                                          : "TRANSPOSE"};
  return emit(a->parent(), Opcode::triangular_solve, {a, b}, std::move(attrs));
}

}  // namespace

Tensor cholesky(Operand a) {
  return call("cholesky", a.site(), [&] {
    Node* node = node_of(a);
    check_square(node);
    Attributes attrs;
    attrs.triangular = TriangularDims{.lower = true};
    return tensor_of(emit(node->parent(), Opcode::cholesky, {node}, std::move(attrs)));
  });
}

Tensor triangular_solve(Operand a, Operand b, const TriangularOptions& options) {
  return call("triangular_solve", a.site(), [&] {
    const auto [matrix, side] = nodes_of(a, b);
    return tensor_of(triangular_system(matrix, side, options));
  });
}

Tensor solve_cholesky(Operand factor, Operand b) {
  return call("solve_cholesky", factor.site(), [&] {
    auto [lower, side] = nodes_of(factor, b);
    check_square(lower);
    Dims dims = side->dims();
    const bool vector = side->rank() == lower->rank() - 1;
    if (vector) {
      if (side->rank() == 0 || dims.back() != lower->dim(lower->rank() - 1))
        call_error("{} does not fit {}; its last dim has to be {}", describe(side), describe(lower),
                   lower->dim(lower->rank() - 1));
      Dims column = dims;
      column.push_back(1);
      side = hlo::reshape(side, column);
    }
    side = triangular_system(lower, side, {.left_side = true, .lower = true});
    side = triangular_system(lower, side,
                             {.left_side = true,
                              .lower = true,
                              .transpose_a = true,
                              .conjugate_a = is_complex(lower->shape.dtype)});
    return tensor_of(vector ? hlo::reshape(side, dims) : side);
  });
}

}  // namespace gspmd
