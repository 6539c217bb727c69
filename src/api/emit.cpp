#include "api/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/passes/differentiate/differentiate.h"

namespace gspmd::detail {

Dims broadcast_dims(const Node* a, const Node* b) {
  const int64_t rank = std::max(a->rank(), b->rank());
  Dims result(static_cast<size_t>(rank), 1);
  for (int64_t i = 1; i <= rank; ++i) {
    const int64_t x = i <= a->rank() ? a->dim(a->rank() - i) : 1;
    const int64_t y = i <= b->rank() ? b->dim(b->rank() - i) : 1;
    if (x != y && x != 1 && y != 1)
      call_error(
          "shapes of {} and {} do not broadcast: dim {} from the end is {} and {}; sizes must "
          "be equal or 1, and expand_dims() puts a dim of size 1",
          describe(a), describe(b), i, x, y);
    result[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return result;
}

Node* broadcast_node(Node* x, const Dims& dims) {
  if (x->dims() == dims) return x;
  const int64_t lead = static_cast<int64_t>(dims.size()) - x->rank();
  Dims kept, places;
  for (int64_t i = 0; i < x->rank(); ++i) {
    const int64_t to = lead + i;
    if (x->dim(i) == 1 && dims[static_cast<size_t>(to)] != 1) continue;
    kept.push_back(x->dim(i));
    places.push_back(to);
  }
  // HLO's broadcast adds dims but does not stretch them: dims of size 1 go first.
  if (kept.size() != x->dims().size()) x = hlo::reshape(x, kept);
  return hlo::broadcast(x, dims, places);
}

Node* stretch(Node* reduced_value, const Dims& dims, const std::vector<int64_t>& reduced) {
  Dims places;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
    if (!std::binary_search(reduced.begin(), reduced.end(), i)) places.push_back(i);
  if (places.size() == dims.size()) return reduced_value;
  return hlo::broadcast(reduced_value, dims, places);
}

Node* splat_like(const Node* like, double value) {
  Computation& c = like->parent();
  Node* scalar = hlo::scalar(c, like->shape.dtype, value);
  return like->rank() == 0 ? scalar : hlo::broadcast(scalar, like->dims(), {});
}

Node* add(Node* a, Node* b) { return hlo::binary(Opcode::add, a, b); }
Node* subtract(Node* a, Node* b) { return hlo::binary(Opcode::subtract, a, b); }
Node* multiply(Node* a, Node* b) { return hlo::binary(Opcode::multiply, a, b); }
Node* divide(Node* a, Node* b) { return hlo::binary(Opcode::divide, a, b); }
Node* in_32_bits(Node* x) {
  const bool half = is_floating(x->shape.dtype) && dtype_size(x->shape.dtype) < 4;
  return half ? hlo::convert(x, DType::f32) : x;
}
Node* in_type_of(Node* x, const Node* like) {
  return x->shape.dtype == like->shape.dtype ? x : hlo::convert(x, like->shape.dtype);
}
Node* add(Node* a, double b) { return add(a, splat_like(a, b)); }
Node* multiply(Node* a, double b) { return multiply(a, splat_like(a, b)); }
Node* divide(Node* a, double b) { return divide(a, splat_like(a, b)); }

Node* reverse_node(Node* x, Dims dims) {
  if (dims.empty()) return x;
  std::sort(dims.begin(), dims.end());
  Attributes attrs;
  attrs.dimensions = std::move(dims);
  return emit(x->parent(), Opcode::reverse, {x}, std::move(attrs));
}

Node* iota_like(const Node* like, int64_t axis) {
  return hlo::iota(like->parent(), Shape(DType::s32, like->dims()), axis);
}

Node* stop_gradient_node(Node* x) {
  Node* node = hlo::unary(Opcode::copy, x);
  node->frontend_attributes[kStopGradient] = "true";
  return node;
}

int64_t checked_axis(int64_t axis, const Node* x) {
  const int64_t rank = x->rank();
  if (rank == 0)
    call_error("axis {} of {}, which has no dims; give a tensor that has", axis, describe(x));
  if (axis < -rank || axis >= rank)
    call_error("axis {} is outside {}, which has rank {}; give {} to {}", axis, describe(x), rank,
               -rank, rank - 1);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> checked_axes(const std::vector<int64_t>& axes, const Node* x) {
  std::vector<int64_t> result;
  for (const int64_t axis : axes) {
    const int64_t checked = checked_axis(axis, x);
    if (std::find(result.begin(), result.end(), checked) != result.end())
      call_error("axis {} of {} is given twice; name each axis once", axis, describe(x));
    result.push_back(checked);
  }
  std::sort(result.begin(), result.end());
  return result;
}

void need_floating(const Node* x) {
  if (!is_floating(x->shape.dtype))
    call_error("needs floating numbers, got {}; convert(x, DType::f32) first", describe(x));
}

void need_number(const Node* x) {
  const DType dtype = x->shape.dtype;
  if (!is_floating(dtype) && !is_integer(dtype) && !is_complex(dtype))
    call_error("needs numbers, got {}; convert(x, DType::f32) first", describe(x));
}

void need_integer(const Node* x, const char* what) {
  if (!is_integer(x->shape.dtype))
    call_error("{} must be integers, got {}; convert(x, DType::s32) first", what, describe(x));
}

void check_needs(const Node* x, Needs needs) {
  const DType dtype = x->shape.dtype;
  if (needs == Needs::floating || (needs == Needs::analytic && !is_complex(dtype)))
    need_floating(x);
  if (needs == Needs::number || needs == Needs::real) need_number(x);
  if (needs == Needs::real && is_complex(dtype))
    call_error("complex numbers like {} have no order; take real(x), imag(x) or abs(x)",
               describe(x));
  if (needs == Needs::integer) need_integer(x, "operands");
  if (needs == Needs::bits && dtype != DType::pred && !is_integer(dtype))
    call_error("needs integers or pred values, got {}; convert(x, DType::s32) first, or bitcast it",
               describe(x));
  if (needs == Needs::pred && dtype != DType::pred)
    call_error("needs pred values, got {}; compare with 0 first", describe(x));
}

Pair broadcast_pair(const Operand& a, const Operand& b, Needs needs) {
  auto [left, right] = nodes_of(a, b);
  check_needs(left, needs);
  const Dims dims = broadcast_dims(left, right);
  return {broadcast_node(left, dims), broadcast_node(right, dims)};
}

Tensor unary(const char* op, Opcode opcode, Needs needs, const Operand& x) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, needs);
    return tensor_of(hlo::unary(opcode, node));
  });
}

Tensor binary(const char* op, Opcode opcode, Needs needs, const Operand& a, const Operand& b) {
  return call(op, a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, needs);
    return tensor_of(hlo::binary(opcode, pair.a, pair.b));
  });
}

Tensor compare(const char* op, Direction direction, const Operand& a, const Operand& b) {
  return call(op, a.site(), [&] {
    const Pair pair = broadcast_pair(a, b, Needs::any);
    return tensor_of(hlo::compare(pair.a, pair.b, direction));
  });
}

Node* compare(Node* a, double b, Direction direction) {
  return hlo::compare(a, splat_like(a, b), direction);
}

std::vector<int64_t> axes_of(const Axes& axes, const Node* x) {
  if (!axes.all()) return checked_axes(axes.list(), x);
  std::vector<int64_t> every(static_cast<size_t>(x->rank()));
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<int64_t>(i);
  return every;
}

Node* reduce_with(Opcode opcode, Node* x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  if (opcode == Opcode::add) return hlo::reduce_sum(x, axes);
  if (opcode == Opcode::maximum) return hlo::reduce_max(x, axes);
  const DType dtype = x->shape.dtype;
  Computation& c = x->parent();
  const Combiner combiner = *combiner_of(opcode, dtype);
  Node* init = hlo::scalar(c, dtype, combiner_identity(combiner, dtype));
  return hlo::reduce(x, init, axes, binary_computation(c.module(), opcode, dtype));
}

Node* keep_dims(Node* reduced, const Node* x, const std::vector<int64_t>& axes) {
  Dims dims = x->dims();
  for (const int64_t axis : axes) dims[static_cast<size_t>(axis)] = 1;
  return axes.empty() ? reduced : hlo::reshape(reduced, dims);
}

std::string dims_text(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

}  // namespace gspmd::detail
