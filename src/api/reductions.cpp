#include "gspmd/api/reductions.h"

#include <cmath>
#include <limits>

#include "api/body.h"
#include "api/emit.h"
#include "gspmd/api/elementwise.h"

namespace gspmd {

using namespace detail;

namespace {

// One combiner over some dims.
Tensor reduced(const char* op, Opcode opcode, Needs needs, const Operand& x,
               const ReduceOptions& options) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, needs);
    const std::vector<int64_t> axes = axes_of(options.axes, node);
    Node* result = reduce_with(opcode, node, axes);
    return tensor_of(options.keep_dims ? keep_dims(result, node, axes) : result);
  });
}

int64_t count_along(const Node* x, const std::vector<int64_t>& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x->dim(axis);
  return count;
}

// Mean of squares of what is left without the mean.
Node* variance(Node* x, const VarianceOptions& options) {
  need_floating(x);
  const std::vector<int64_t> axes = axes_of(options.axes, x);
  const auto count = static_cast<double>(count_along(x, axes));
  if (!(options.ddof >= 0)) call_error("ddof {} is wrong; give 0, or 1 for samples", options.ddof);
  Node* mean = divide(reduce_with(Opcode::add, x, axes), count);
  Node* rest = subtract(x, stretch(mean, x->dims(), axes));
  Node* squares = reduce_with(Opcode::add, multiply(rest, rest), axes);
  Node* result = divide(squares, std::max(count - options.ddof, 0.0));
  return options.keep_dims ? keep_dims(result, x, axes) : result;
}

Node* power(Node* x, double exponent) {
  return hlo::binary(Opcode::power, x, splat_like(x, exponent));
}

// `size`: absolute values.
Node* norm_of(Node* size, double ord, const std::vector<int64_t>& axes) {
  if (std::isinf(ord)) {
    if (count_along(size, axes) == 0 && !axes.empty())
      call_error("norm {} of {}: there are no elements, which have no extremum", ord,
                 describe(size));
    return reduce_with(ord > 0 ? Opcode::maximum : Opcode::minimum, size, axes);
  }
  if (ord == 0)
    return reduce_with(Opcode::add,
                       hlo::convert(compare(size, 0, Direction::ne), size->shape.dtype), axes);
  if (ord == 1) return reduce_with(Opcode::add, size, axes);
  if (ord == 2)
    return hlo::unary(Opcode::sqrt, reduce_with(Opcode::add, multiply(size, size), axes));
  return power(reduce_with(Opcode::add, power(size, ord), axes), 1 / ord);
}

}  // namespace

Tensor prod(Operand x, const ReduceOptions& options) {
  return reduced("prod", Opcode::multiply, Needs::number, x, options);
}
Tensor any(Operand x, const ReduceOptions& options) {
  return reduced("any", Opcode::or_, Needs::pred, x, options);
}
Tensor All::operator()(Operand x, const ReduceOptions& options) const {
  return reduced("all", Opcode::and_, Needs::pred, x, options);
}

Tensor var(Operand x, const VarianceOptions& options) {
  return call("var", x.site(), [&] { return tensor_of(variance(node_of(x), options)); });
}
Tensor stddev(Operand x, const VarianceOptions& options) {
  return call("stddev", x.site(),
              [&] { return tensor_of(hlo::unary(Opcode::sqrt, variance(node_of(x), options))); });
}

Tensor norm(Operand x, const VectorNormOptions& options) {
  return call("norm", x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::analytic);
    if (std::isnan(options.ord)) call_error("ord is NaN; give a number or an infinity");
    const std::vector<int64_t> axes = axes_of(options.axes, node);
    // |x| has no gradient at 0, which its square has.
    const bool squared = options.ord == 2 && !is_complex(node->shape.dtype);
    Node* result = norm_of(squared ? node : hlo::unary(Opcode::abs, node), options.ord, axes);
    return tensor_of(options.keep_dims ? keep_dims(result, node, axes) : result);
  });
}

namespace {

// (value, place) of two candidates: NaN first, then the extremum, then the earlier place.
Computation* extremum_of_two(Module& module, DType dtype, Direction better) {
  Computation* c = module.add_computation(better == Direction::gt ? "argmax" : "argmin");
  const Shape value(dtype, {}), place(DType::s32, {});
  Node* a = hlo::parameter(*c, 0, value, "a");
  Node* i = hlo::parameter(*c, 1, place, "i");
  Node* b = hlo::parameter(*c, 2, value, "b");
  Node* j = hlo::parameter(*c, 3, place, "j");
  Node* wins = hlo::compare(a, b, better);
  if (is_floating(dtype)) wins = hlo::binary(Opcode::or_, wins, hlo::compare(a, a, Direction::ne));
  Node* ties = hlo::compare(a, b, Direction::eq);
  if (is_floating(dtype)) {
    Node* nan = hlo::binary(Opcode::and_, hlo::compare(a, a, Direction::ne),
                            hlo::compare(b, b, Direction::ne));
    ties = hlo::binary(Opcode::or_, ties, nan);
  }
  Node* earlier = hlo::binary(Opcode::and_, ties, hlo::compare(i, j, Direction::lt));
  // Of two NaNs the earlier one wins: `wins` holds for both.
  Node* lost = hlo::binary(Opcode::and_, ties, hlo::compare(j, i, Direction::lt));
  Node* first = hlo::binary(Opcode::and_, hlo::binary(Opcode::or_, wins, earlier),
                            hlo::unary(Opcode::not_, lost));
  c->set_root(hlo::tuple(*c, {hlo::select(first, a, b), hlo::select(first, i, j)}));
  return c;
}

Tensor place_of_extremum(const char* op, Direction better, const Operand& x,
                         const ArgOptions& options) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::real);
    const Node* whole = node;
    std::vector<int64_t> kept;
    if (options.axis) {
      kept = {checked_axis(*options.axis, node)};
    } else {
      kept = axes_of({}, node);
      node = hlo::reshape(node, {node->shape.elements_count()});
    }
    const int64_t axis = options.axis ? kept[0] : 0;
    if (node->dim(axis) == 0)
      call_error("axis {} of {} has no elements, of which none is an extremum", axis,
                 describe(node));
    Computation& c = node->parent();
    const DType dtype = node->shape.dtype;
    const Combiner combiner = better == Direction::gt ? Combiner::max : Combiner::min;
    Node* places = hlo::iota(c, Shape(DType::s32, node->dims()), axis);
    Attributes attrs;
    attrs.dimensions = {axis};
    // A place behind all: the initial value ties with elements of its size, and is later.
    Node* both = emit(c, Opcode::reduce,
                      {node, places, hlo::scalar(c, dtype, combiner_identity(combiner, dtype)),
                       hlo::scalar(c, DType::s32, std::numeric_limits<int32_t>::max())},
                      std::move(attrs), {}, {extremum_of_two(c.module(), dtype, better)});
    Node* result = hlo::get_tuple_element(both, 1);
    return tensor_of(options.keep_dims ? keep_dims(result, whole, kept) : result);
  });
}

}  // namespace

Tensor argmax(Operand x, const ArgOptions& options) {
  return place_of_extremum("argmax", Direction::gt, x, options);
}
Tensor argmin(Operand x, const ArgOptions& options) {
  return place_of_extremum("argmin", Direction::lt, x, options);
}

Tensor reduce(Operand x, Operand init, const ScalarFunction& f, const ReduceOptions& options) {
  Node* node = call("reduce", x.site(), [&] { return node_of(x); });
  Computation* combiner = scalar_computation("reduce", x.site(), node->shape.dtype, f);
  return call("reduce", x.site(), [&] {
    const std::vector<int64_t> axes = axes_of(options.axes, node);
    Node* result = hlo::reduce(node, initial_value(init, node), axes, combiner);
    return tensor_of(options.keep_dims ? keep_dims(result, node, axes) : result);
  });
}

namespace {

struct Line {
  Node* node;
  int64_t axis;
};

// The array and the dim that totals run along: of all its elements in one dim where none is named.
Line line_of(const Operand& x, const CumulativeOptions& options, Needs needs) {
  Node* node = node_of(x);
  check_needs(node, needs);
  if (options.axis) return {node, checked_axis(*options.axis, node)};
  return {hlo::reshape(node, {node->shape.elements_count()}), 0};
}

// A window over all elements up to one's own.
Tensor cumulative(const char* op, Opcode opcode, Needs needs, const Operand& x,
                  const CumulativeOptions& options) {
  return call(op, x.site(), [&] {
    const auto [node, axis] = line_of(x, options, needs);
    const int64_t size = node->dim(axis);
    if (size <= 1 || node->shape.elements_count() == 0) return tensor_of(node);
    Attributes attrs;
    attrs.window.resize(node->dims().size());
    WindowDim& window = attrs.window.edit()[static_cast<size_t>(axis)];
    window.size = size;
    (options.reverse ? window.pad_high : window.pad_low) = size - 1;
    const DType dtype = node->shape.dtype;
    Computation& c = node->parent();
    Node* init = hlo::scalar(c, dtype, combiner_identity(*combiner_of(opcode, dtype), dtype));
    return tensor_of(emit(c, Opcode::reduce_window, {node, init}, std::move(attrs), {},
                          {binary_computation(c.module(), opcode, dtype)}));
  });
}

}  // namespace

Tensor cumsum(Operand x, const CumulativeOptions& options) {
  return cumulative("cumsum", Opcode::add, Needs::number, x, options);
}
Tensor cumprod(Operand x, const CumulativeOptions& options) {
  return cumulative("cumprod", Opcode::multiply, Needs::number, x, options);
}
Tensor cummax(Operand x, const CumulativeOptions& options) {
  return cumulative("cummax", Opcode::maximum, Needs::real, x, options);
}
Tensor cummin(Operand x, const CumulativeOptions& options) {
  return cumulative("cummin", Opcode::minimum, Needs::real, x, options);
}

// Totals of 1, 2, 4, ... elements: each is that of half as many and the one before it.
Tensor cumlogsumexp(Operand x, const CumulativeOptions& options) {
  return call("cumlogsumexp", x.site(), [&] {
    const auto [node, axis] = line_of(x, options, Needs::floating);
    Node* total = node;
    Computation& c = node->parent();
    Node* nothing = hlo::scalar(c, node->shape.dtype, -std::numeric_limits<double>::infinity());
    for (int64_t have = 1; have < node->dim(axis); have *= 2) {
      std::vector<PaddingDim> shift(node->dims().size());
      shift[static_cast<size_t>(axis)] = {options.reverse ? -have : have,
                                          options.reverse ? have : -have, 0};
      Node* before = hlo::pad(total, nothing, std::move(shift));
      total = node_of(logaddexp(tensor_of(total), tensor_of(before)));
    }
    return tensor_of(total);
  });
}

}  // namespace gspmd
