#include "ops/emission/index.h"

#include <algorithm>

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

Node* number_like(IndexNode a, int64_t value) {
  return hlo::splat(a->parent(), a->shape, static_cast<double>(value));
}

IndexNode combine(Opcode opcode, IndexNode a, int64_t b) {
  return IndexNode(hlo::binary(opcode, a, number_like(a, b)));
}

Node* as_large_as(IndexNode positions, IndexNode bound) {
  return bound->rank() == positions->rank() ? bound : hlo::broadcast(bound, positions->dims(), {});
}

}  // namespace

IndexNode::IndexNode(Computation& c, int64_t value)
    : node_(hlo::scalar(c, DType::s32, static_cast<double>(value))) {}

IndexNode operator+(IndexNode a, int64_t b) { return b == 0 ? a : combine(Opcode::add, a, b); }
IndexNode operator-(int64_t a, IndexNode b) {
  return IndexNode(hlo::binary(Opcode::subtract, number_like(b, a), b));
}
IndexNode operator*(IndexNode a, int64_t b) { return b == 1 ? a : combine(Opcode::multiply, a, b); }
IndexNode operator/(IndexNode a, int64_t b) { return b == 1 ? a : combine(Opcode::divide, a, b); }
IndexNode operator%(IndexNode a, int64_t b) { return combine(Opcode::remainder, a, b); }
IndexNode minimum(IndexNode a, int64_t b) { return combine(Opcode::minimum, a, b); }
IndexNode maximum(IndexNode a, int64_t b) { return combine(Opcode::maximum, a, b); }
IndexNode operator+(IndexNode a, IndexNode b) { return IndexNode(hlo::binary(Opcode::add, a, b)); }
IndexNode operator-(IndexNode a, IndexNode b) {
  return IndexNode(hlo::binary(Opcode::subtract, a, b));
}

IndexNode device_number(Computation& c) {
  return IndexNode(
      hlo::convert(emit(c, Opcode::partition_id, {}, {}, Shape(DType::u32, {})), DType::s32));
}

IndexNode digits_index(IndexNode rank, const Digits& digits, int64_t count) {
  Node* index = nullptr;
  int64_t weight = tile_count(digits);
  for (const Digit& digit : digits) {
    weight /= digit.size;
    IndexNode part = rank / digit.stride;
    if (digit.stride * digit.size < count) part = part % digit.size;
    part = part * weight;
    index = index ? IndexNode(index) + part : part;
  }
  return IndexNode(index);
}

IndexNode look_up(const std::vector<int64_t>& table, IndexNode at) {
  const std::vector<int32_t> values(table.begin(), table.end());
  Node* all = hlo::constant(at->parent(), Array::of<int32_t>({std::ssize(values)}, values));
  return IndexNode(hlo::reshape(hlo::dynamic_slice(all, {at}, {1}), {}));
}

IndexNode positions(const Dims& dims, int64_t dim, IndexNode first) {
  Node* start = hlo::broadcast(first, dims, {});
  return IndexNode(hlo::iota(first->parent(), Shape(first->shape.dtype, dims), dim)) +
         IndexNode(start);
}

Node* compare(IndexNode positions, IndexNode bound, Direction direction) {
  return hlo::compare(positions, as_large_as(positions, bound), direction);
}

Node* within(IndexNode positions, IndexNode begin, IndexNode end) {
  Node* before = compare(positions, end, Direction::lt);
  return hlo::binary(Opcode::and_, compare(positions, begin, Direction::ge), before);
}

Node* cut(Node* x, int64_t dim, int64_t begin, int64_t size) {
  if (begin == 0 && size == x->dim(dim)) return x;
  Dims starts(x->dims().size(), 0), limits = x->dims();
  starts[static_cast<size_t>(dim)] = begin;
  limits[static_cast<size_t>(dim)] = begin + size;
  return hlo::slice(x, starts, limits, Dims(starts.size(), 1));
}

Node* cut(Node* x, int64_t dim, IndexNode begin, int64_t size) {
  std::vector<Node*> starts(x->dims().size(), IndexNode(x->parent(), 0));
  Dims sizes = x->dims();
  starts[static_cast<size_t>(dim)] = begin;
  sizes[static_cast<size_t>(dim)] = size;
  return hlo::dynamic_slice(x, std::move(starts), std::move(sizes));
}

Node* pad(Node* x, int64_t dim, int64_t low, int64_t high, Node* value) {
  std::vector<PaddingDim> padding(x->dims().size());
  padding[static_cast<size_t>(dim)] = {low, high, 0};
  return pad(x, std::move(padding), value);
}

Node* pad(Node* x, std::vector<PaddingDim> padding, Node* value) {
  if (std::count(padding.begin(), padding.end(), PaddingDim{}) == std::ssize(padding)) return x;
  if (!value) value = hlo::scalar(x->parent(), x->shape.dtype, 0);
  return hlo::pad(x, value, std::move(padding));
}

}  // namespace gspmd
