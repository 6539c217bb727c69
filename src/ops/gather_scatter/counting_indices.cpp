#include "ops/gather_scatter/counting_indices.h"

#include <algorithm>

namespace gspmd {
namespace {

constexpr int kMostSteps = 64;  // through how many nodes a value is followed
constexpr int64_t kMostElements = 65'536;

// The one node that runs a computation; nullptr where there are several.
const Node* caller_of(const Computation& computation) {
  const Node* caller = nullptr;
  for (const auto& other : computation.module().computations())
    for (const auto& node : other->nodes())
      for (const Computation* called : node->called) {
        if (called != &computation) continue;
        if (caller) return nullptr;
        caller = node.get();
      }
  return caller;
}

// Element `index` of a tuple: the value itself where it can be found.
const Node* element_of(const Node* tuple, int64_t index, int steps);

// What an argument of a call or branch is outside.
const Node* argument(const Node& parameter) {
  const Node* caller = caller_of(parameter.parent());
  if (!caller) return nullptr;
  if (caller->is(Opcode::call)) return caller->operand(parameter.attrs.index);
  if (!caller->is(Opcode::conditional)) return nullptr;
  for (size_t b = 0; b < caller->called.size() && b + 1 < caller->operands().size(); ++b)
    if (caller->called[b] == &parameter.parent()) return caller->operands()[b + 1];
  return nullptr;
}

// A loop hands element `index` on unchanged.
bool is_invariant(const Node& loop, int64_t index) {
  const Node* root = loop.called.at(1)->root();
  if (!root->is(Opcode::tuple) || index >= static_cast<int64_t>(root->operands().size()))
    return false;
  const Node* next = root->operand(index);
  return next->is(Opcode::get_tuple_element) && next->attrs.index == index &&
         next->operand(0)->is(Opcode::parameter);
}

const Node* element_of(const Node* tuple, int64_t index, int steps) {
  for (; tuple && steps > 0; --steps) {
    if (tuple->is(Opcode::tuple))
      return index < static_cast<int64_t>(tuple->operands().size()) ? tuple->operand(index)
                                                                    : nullptr;
    const Node* loop = tuple->is(Opcode::while_) ? tuple : nullptr;
    if (tuple->is(Opcode::parameter)) {
      const Node* caller = caller_of(tuple->parent());
      if (caller && caller->is(Opcode::while_)) loop = caller;
    }
    if (loop) {
      if (!is_invariant(*loop, index)) return nullptr;
      tuple = loop->operand(0);
    } else if (tuple->is(Opcode::optimization_barrier) || tuple->is(Opcode::copy)) {
      tuple = tuple->operand(0);
    } else {
      tuple = tuple->is(Opcode::parameter) ? argument(*tuple) : nullptr;
    }
  }
  return nullptr;
}

// The node that a value is a copy of.
const Node* source_of(const Node& value) {
  const Node* at = &value;
  for (int steps = kMostSteps; steps > 0; --steps) {
    const Node* next = nullptr;
    if (at->is(Opcode::copy))
      next = at->operand(0);
    else if (at->is(Opcode::parameter))
      next = argument(*at);
    else if (at->is(Opcode::get_tuple_element))
      next = element_of(at->operand(0), at->attrs.index, steps);
    if (!next || next->shape.is_tuple) return at;
    at = next;
  }
  return at;
}

int64_t counting_dim_of_literal(const Node& constant) {
  const Shape& shape = constant.shape;
  if (constant.attrs.literal.empty()) return -1;
  if (!is_integer(shape.dtype) || shape.elements_count() > kMostElements) return -1;
  const Dims strides = row_major_strides(shape.dims);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const int64_t size = shape.dims[static_cast<size_t>(d)];
    if (size <= 1) continue;
    bool counts = true;
    for (int64_t i = 0; i < shape.elements_count() && counts; ++i)
      counts = constant.attrs.literal.at(i) ==
               static_cast<double>(i / strides[static_cast<size_t>(d)] % size);
    if (counts) return d;
  }
  return -1;
}

// The dim along which indices count 0, 1, 2, ...; -1 where they do not.
int64_t counting_dim(const Node& indices, int steps) {
  if (steps == 0) return -1;
  const Node& source = *source_of(indices);
  if (source.is(Opcode::iota)) return source.attrs.index;
  if (source.is(Opcode::broadcast)) {
    const int64_t dim = counting_dim(*source.operand(0), steps - 1);
    return dim < 0 ? -1 : source.attrs.dimensions.at(static_cast<size_t>(dim));
  }
  return source.is(Opcode::constant) ? counting_dim_of_literal(source) : -1;
}

}  // namespace

std::vector<int64_t> counting_components(const Node& indices, int64_t vector_dim,
                                         size_t components) {
  std::vector<int64_t> result(components, -1);
  const auto set = [&](const Node& part, size_t begin, size_t count) {
    const int64_t dim = counting_dim(part, kMostSteps);
    for (size_t i = begin; i < std::min(components, begin + count); ++i)
      if (dim != vector_dim) result[i] = dim;
  };
  const Node& source = *source_of(indices);
  if (!source.is(Opcode::concatenate) || source.attrs.dimensions.at(0) != vector_dim) {
    set(source, 0, components);
    return result;
  }
  size_t begin = 0;
  for (const Node* part : source.operands()) {
    const auto count = static_cast<size_t>(part->dim(vector_dim));
    set(*part, begin, count);
    begin += count;
  }
  return result;
}

}  // namespace gspmd
