#include "gspmd/base/shape.h"

#include <fmt/format.h>

#include <limits>
#include <span>

namespace gspmd {

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<int64_t>::max();
  return product;
}

Shape::Shape() = default;
Shape::Shape(DType type, Dims sizes) : dtype(type), dims(std::move(sizes)) {}
Shape::Shape(const Shape& other) = default;
Shape::Shape(Shape&& other) noexcept = default;
Shape& Shape::operator=(const Shape& other) = default;
Shape& Shape::operator=(Shape&& other) noexcept = default;
Shape::~Shape() = default;

Shape Shape::tuple(std::vector<Shape> elements) {
  Shape shape;
  shape.is_tuple = true;
  shape.elements = std::move(elements);
  return shape;
}

int64_t Shape::elements_count() const {
  if (is_tuple) return 0;
  int64_t count = 1;
  for (const int64_t d : dims)
    if (d == 0) return 0;
  for (const int64_t d : dims) count = saturating_multiply(count, d);
  return count;
}

int64_t Shape::bytes() const {
  if (!is_tuple) return saturating_multiply(elements_count(), dtype_size(dtype));
  int64_t total = 0;
  for (const Shape& element : elements)
    if (__builtin_add_overflow(total, element.bytes(), &total))
      return std::numeric_limits<int64_t>::max();
  return total;
}

bool Shape::operator==(const Shape& other) const {
  if (is_tuple != other.is_tuple) return false;
  if (is_tuple) return elements == other.elements;
  return dtype == other.dtype && dims == other.dims;
}

namespace {

void collect_leaves(const Shape& shape, std::vector<Shape>& leaves) {
  if (!shape.is_tuple) {
    leaves.push_back(shape);
    return;
  }
  for (const Shape& element : shape.elements) collect_leaves(element, leaves);
}

}  // namespace

std::vector<Shape> leaf_shapes(const Shape& shape) {
  std::vector<Shape> leaves;
  collect_leaves(shape, leaves);
  return leaves;
}

int64_t leaf_count(const Shape& shape) {
  if (!shape.is_tuple) return 1;
  int64_t count = 0;
  for (const Shape& element : shape.elements) count += leaf_count(element);
  return count;
}

int64_t first_leaf(const Shape& tuple, int64_t element) {
  int64_t leaf = 0;
  for (const Shape& before : std::span(tuple.elements).first(static_cast<size_t>(element)))
    leaf += before.is_tuple ? leaf_count(before) : 1;
  return leaf;
}

std::string to_string(const Shape& shape) {
  if (!shape.is_tuple)
    return fmt::format("{}[{}]", dtype_name(shape.dtype), fmt::join(shape.dims, ","));
  std::string text = "(";
  for (size_t i = 0; i < shape.elements.size(); ++i)
    text += (i ? ", " : "") + to_string(shape.elements[i]);
  return text + ")";
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = saturating_multiply(strides[i], dims[i]);
  return strides;
}

}  // namespace gspmd
