#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"

namespace gspmd {
namespace {

void collect(const Value& value, std::vector<Array>& arrays) {
  if (!value.is_tuple) {
    arrays.push_back(value.array);
    return;
  }
  for (const Value& element : value.elements) collect(element, arrays);
}

Value pack_from(const Shape& shape, std::span<const Array> arrays, size_t& next) {
  if (!shape.is_tuple) return {arrays[next++], {}, false};
  std::vector<Value> elements;
  for (const Shape& element : shape.elements) elements.push_back(pack_from(element, arrays, next));
  return Value::tuple(std::move(elements));
}

}  // namespace

Value Value::tuple(std::vector<Value> elements) { return {{}, std::move(elements), true}; }

std::vector<Array> leaves(const Value& value) {
  std::vector<Array> arrays;
  collect(value, arrays);
  return arrays;
}

Value pack(const Shape& shape, std::span<const Array> leaf_arrays) {
  if (leaf_count(shape) != static_cast<int64_t>(leaf_arrays.size()))
    internal_error("pack: {} arrays for {}, which has {} leaves", leaf_arrays.size(),
                   to_string(shape), leaf_count(shape));
  size_t next = 0;
  return pack_from(shape, leaf_arrays, next);
}

}  // namespace gspmd
