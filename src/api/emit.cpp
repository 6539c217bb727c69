#include "api/emit.h"

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
          "be equal or 1",
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
Node* add(Node* a, double b) { return add(a, splat_like(a, b)); }
Node* multiply(Node* a, double b) { return multiply(a, splat_like(a, b)); }
Node* divide(Node* a, double b) { return divide(a, splat_like(a, b)); }

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
  if (!is_floating(x->shape.dtype) && !is_integer(x->shape.dtype))
    call_error("needs numbers, got {}; convert(x, DType::f32) first", describe(x));
}

void need_integer(const Node* x, const char* what) {
  if (!is_integer(x->shape.dtype))
    call_error("{} must be integers, got {}; convert(x, DType::s32) first", what, describe(x));
}

}  // namespace gspmd::detail
