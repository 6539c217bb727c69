#include "gspmd/api/arranging.h"

#include <algorithm>
#include <cmath>

#include "api/emit.h"
#include "gspmd/api/shaping.h"

namespace gspmd {

using namespace detail;

namespace {

void check_counted(DType dtype) {
  if (!is_computable(dtype) || dtype == DType::pred)
    call_error("type {} does not count; use an integer or floating type", dtype_name(dtype));
}

Node* counting(int64_t count, DType dtype) {
  return hlo::iota(trace_of_call().here(), Shape(dtype, {count}), 0);
}

Node* flat(Node* x) { return hlo::reshape(x, {x->shape.elements_count()}); }

Node* sliced(Node* x, int64_t axis, int64_t start, int64_t limit) {
  Dims starts(x->dims().size(), 0), limits = x->dims();
  starts[static_cast<size_t>(axis)] = start;
  limits[static_cast<size_t>(axis)] = limit;
  return hlo::slice(x, starts, limits, Dims(starts.size(), 1));
}

Node* rolled(Node* x, int64_t shift, int64_t axis) {
  const int64_t size = x->dim(axis);
  if (size == 0) return x;
  const int64_t by = (shift % size + size) % size;
  if (by == 0) return x;
  return hlo::concatenate({sliced(x, axis, size - by, size), sliced(x, axis, 0, size - by)}, axis);
}

}  // namespace

Tensor arange(double start, double stop, double step, DType dtype, Site site) {
  return call("arange", site, [&] {
    check_counted(dtype);
    const double count = std::ceil((stop - start) / step);
    if (!std::isfinite(count) || count > 0x1p53)
      call_error(
          "start {}, stop {} and step {} make no range; give finite numbers and a step that "
          "is not 0",
          start, stop, step);
    if (!is_floating(dtype) && (start != std::trunc(start) || step != std::trunc(step)))
      call_error("start {} and step {} are no {}; give a floating dtype", start, step,
                 dtype_name(dtype));
    Node* node = counting(std::max<int64_t>(static_cast<int64_t>(count), 0), dtype);
    if (step != 1) node = multiply(node, splat_like(node, step));
    return tensor_of(start == 0 ? node : add(node, start));
  });
}

Tensor arange(int64_t stop, Site site) {
  return call("arange", site, [&] { return arange(0, static_cast<double>(stop)); });
}

// Both ends are exact, as in NumPy: the last element is not computed.
Tensor linspace(double start, double stop, int64_t num, const LinspaceOptions& options, Site site) {
  return call("linspace", site, [&] {
    if (num < 0) call_error("{} numbers are negative; give 0 or more", num);
    if (!is_floating(options.dtype))
      call_error("type {} has no numbers between others; use a floating type",
                 dtype_name(options.dtype));
    const int64_t steps = options.endpoint ? num - 1 : num;
    Node* places = counting(num, options.dtype);
    if (steps <= 0) return tensor_of(add(multiply(places, 0.0), start));
    Node* node = add(multiply(places, (stop - start) / static_cast<double>(steps)), start);
    if (!options.endpoint) return tensor_of(node);
    Node* last = compare(iota_like(node, 0), static_cast<double>(steps), Direction::eq);
    return tensor_of(hlo::select(last, splat_like(node, stop), node));
  });
}

Tensor roll(Operand x, int64_t shift, const Axes& axes) {
  return call("roll", x.site(), [&] {
    Node* node = node_of(x);
    if (axes.all()) return tensor_of(hlo::reshape(rolled(flat(node), shift, 0), node->dims()));
    for (const int64_t axis : axes_of(axes, node)) node = rolled(node, shift, axis);
    return tensor_of(node);
  });
}

Tensor flip(Operand x, const Axes& axes) {
  return call("flip", x.site(), [&] {
    Node* node = node_of(x);
    return tensor_of(reverse_node(node, axes_of(axes, node)));
  });
}

Tensor tile(Operand x, Dims repetitions) {
  return call("tile", x.site(), [&] {
    Node* node = node_of(x);
    for (const int64_t count : repetitions)
      if (count < 0) call_error("repetitions {} are wrong; give 0 or more", dims_text(repetitions));
    Dims own = node->dims();
    const size_t rank = std::max(own.size(), repetitions.size());
    own.insert(own.begin(), rank - own.size(), 1);
    repetitions.insert(repetitions.begin(), rank - repetitions.size(), 1);
    Dims both, kept, result;  // each dim as repetitions of its elements
    for (size_t i = 0; i < rank; ++i) {
      kept.push_back(static_cast<int64_t>(2 * i + 1));
      both.push_back(repetitions[i]);
      both.push_back(own[i]);
      result.push_back(repetitions[i] * own[i]);
    }
    if (result == node->dims()) return tensor_of(node);
    return tensor_of(hlo::reshape(hlo::broadcast(hlo::reshape(node, own), both, kept), result));
  });
}

Tensor repeat(Operand x, int64_t count, std::optional<int64_t> axis) {
  return call("repeat", x.site(), [&] {
    Node* node = node_of(x);
    if (count < 0) call_error("count {} is negative; give 0 or more", count);
    if (!axis) node = flat(node);
    const int64_t at = checked_axis(axis.value_or(0), node);
    Dims both = node->dims(), kept, result = node->dims();
    both.insert(both.begin() + at + 1, count);
    for (int64_t i = 0; i < node->rank(); ++i) kept.push_back(i <= at ? i : i + 1);
    result[static_cast<size_t>(at)] *= count;
    return tensor_of(hlo::reshape(hlo::broadcast(node, both, kept), result));
  });
}

Tensor stack(std::vector<Tensor> parts, int64_t axis, Site site) {
  return call("stack", site, [&] {
    if (parts.empty()) call_error("no parts given; give at least one tensor");
    const Node* first = node_of(parts[0]);
    std::vector<Tensor> rows;
    for (const Tensor& part : parts) {
      const Node* node = node_of(part);
      if (!(node->shape == first->shape))
        call_error("{} and {} differ; dims and dtypes of all parts must be equal", describe(first),
                   describe(node));
      rows.push_back(expand_dims(part, axis));
    }
    return concatenate(rows, axis);
  });
}

namespace {

std::vector<Tensor> cut(Node* x, int64_t axis, Dims places) {
  const int64_t size = x->dim(axis);
  places.push_back(size);
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (const int64_t place : places) {
    const int64_t limit = std::clamp<int64_t>(place < 0 ? place + size : place, 0, size);
    parts.push_back(tensor_of(sliced(x, axis, start, std::max(start, limit))));
    start = limit;
  }
  return parts;
}

}  // namespace

std::vector<Tensor> split(Operand x, int64_t sections, int64_t axis) {
  return call("split", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t at = checked_axis(axis, node);
    if (sections < 1 || node->dim(at) % sections != 0)
      call_error(
          "dim {} of {} does not divide into {} equal parts; give the places where parts "
          "begin",
          at, describe(node), sections);
    Dims places;
    for (int64_t i = 1; i < sections; ++i) places.push_back(i * (node->dim(at) / sections));
    return cut(node, at, std::move(places));
  });
}

std::vector<Tensor> split(Operand x, std::vector<int64_t> places, int64_t axis) {
  return call("split", x.site(), [&] {
    Node* node = node_of(x);
    return cut(node, checked_axis(axis, node), std::move(places));
  });
}

namespace {

// Whether an element of the last two dims is right of diagonal k - 1, s32 row and column compared.
Node* against_diagonal(const Node* like, int64_t k, Direction direction) {
  Node* column = iota_like(like, like->rank() - 1);
  Node* row = iota_like(like, like->rank() - 2);
  return hlo::compare(column, k == 0 ? row : add(row, static_cast<double>(k)), direction);
}

Tensor triangle(const char* op, const Operand& x, int64_t k, Direction kept) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    if (node->rank() < 2)
      call_error("{} has rank {}; a matrix has two dims", describe(node), node->rank());
    return tensor_of(hlo::select(against_diagonal(node, k, kept), node, splat_like(node, 0)));
  });
}

Tensor marked(const char* op, int64_t rows, const MatrixOptions& options, Direction direction,
              Site site) {
  return call(op, site, [&] {
    const int64_t columns = options.columns.value_or(rows);
    if (rows < 0 || columns < 0)
      call_error("{} rows and {} columns are wrong; give 0 or more", rows, columns);
    if (!is_computable(options.dtype) && !is_complex(options.dtype))
      call_error("type {} is not supported; use an integer, floating or complex type",
                 dtype_name(options.dtype));
    const Node* like = node_of(zeros({options.dtype, {rows, columns}}));
    Node* mark = against_diagonal(like, options.k, direction);
    return tensor_of(options.dtype == DType::pred ? mark : hlo::convert(mark, options.dtype));
  });
}

// The two dims last, cut to the square whose main diagonal is the one wanted.
Node* diagonal_square(Node* x, const DiagonalOptions& options) {
  if (x->rank() < 2) call_error("{} has rank {}; a matrix has two dims", describe(x), x->rank());
  const int64_t rows = checked_axis(options.axis1, x), columns = checked_axis(options.axis2, x);
  if (rows == columns)
    call_error("axis1 and axis2 are both {}; name two dims of {}", rows, describe(x));
  Dims order;
  for (int64_t i = 0; i < x->rank(); ++i)
    if (i != rows && i != columns) order.push_back(i);
  order.insert(order.end(), {rows, columns});
  if (!std::is_sorted(order.begin(), order.end())) x = hlo::transpose(x, order);
  const int64_t first_row = std::clamp<int64_t>(-options.offset, 0, x->dim(x->rank() - 2));
  const int64_t first_column = std::clamp<int64_t>(options.offset, 0, x->dim(x->rank() - 1));
  const int64_t size =
      std::min(x->dim(x->rank() - 2) - first_row, x->dim(x->rank() - 1) - first_column);
  x = sliced(x, x->rank() - 2, first_row, first_row + size);
  return sliced(x, x->rank() - 1, first_column, first_column + size);
}

// The sum over columns of what is left without all but the diagonal: exact, as all others are 0.
Node* diagonal_of(Node* x, const DiagonalOptions& options) {
  Node* square = diagonal_square(x, options);
  Node* kept =
      hlo::select(against_diagonal(square, 0, Direction::eq), square, splat_like(square, 0));
  const bool logical = x->shape.dtype == DType::pred;
  return reduce_with(logical ? Opcode::or_ : Opcode::add, kept, {square->rank() - 1});
}

}  // namespace

Tensor tril(Operand x, int64_t k) { return triangle("tril", x, k, Direction::le); }
Tensor triu(Operand x, int64_t k) { return triangle("triu", x, k, Direction::ge); }
Tensor eye(int64_t rows, const MatrixOptions& options, Site site) {
  return marked("eye", rows, options, Direction::eq, site);
}
Tensor tri(int64_t rows, const MatrixOptions& options, Site site) {
  return marked("tri", rows, options, Direction::le, site);
}

Tensor diagonal(Operand x, const DiagonalOptions& options) {
  return call("diagonal", x.site(), [&] { return tensor_of(diagonal_of(node_of(x), options)); });
}

Tensor matrix_trace(Operand x, const DiagonalOptions& options) {
  return call("matrix_trace", x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::number);
    Node* elements = diagonal_of(node, options);
    return tensor_of(hlo::reduce_sum(elements, {elements->rank() - 1}));
  });
}

Tensor diag(Operand x, int64_t k) {
  return call("diag", x.site(), [&] {
    Node* node = node_of(x);
    if (node->rank() == 2) return tensor_of(diagonal_of(node, {.offset = k}));
    if (node->rank() != 1)
      call_error("{} has rank {}; give a vector or a matrix", describe(node), node->rank());
    const int64_t lead = std::max<int64_t>(-k, 0), size = node->dim(0) + std::abs(k);
    Node* zero = hlo::scalar(node->parent(), node->shape.dtype, 0);
    Node* column = hlo::pad(node, zero, {{lead, size - lead - node->dim(0), 0}});
    Node* wide = hlo::broadcast(column, {size, size}, {0});
    return tensor_of(
        hlo::select(against_diagonal(wide, k, Direction::eq), wide, splat_like(wide, 0)));
  });
}

}  // namespace gspmd
