#include "ops/common/in_dim.h"

namespace gspmd {

Node* slice_in_dim(Node* x, int64_t dim, int64_t start, int64_t limit) {
  Dims starts(x->dims().size(), 0), limits = x->dims();
  starts[static_cast<size_t>(dim)] = start;
  limits[static_cast<size_t>(dim)] = limit;
  return hlo::slice(x, std::move(starts), std::move(limits), Dims(x->dims().size(), 1));
}

Node* dynamic_slice_in_dim(Node* x, int64_t dim, Node* start, int64_t size) {
  std::vector<Node*> starts(x->dims().size(), hlo::scalar(x->parent(), DType::s32, 0));
  starts[static_cast<size_t>(dim)] = start;
  Dims sizes = x->dims();
  sizes[static_cast<size_t>(dim)] = size;
  return hlo::dynamic_slice(x, std::move(starts), std::move(sizes));
}

Node* places_in_dim(const Dims& dims, int64_t dim, Node* first) {
  Node* const start = hlo::broadcast(first, dims, {});
  return hlo::add(hlo::iota(first->parent(), Shape(DType::s32, dims), dim), start);
}

Dims dims_except(int64_t rank, int64_t dim) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}

std::vector<Node*> elements_of(Node* value) {
  if (!value->shape.is_tuple) return {value};
  std::vector<Node*> elements;
  for (int64_t i = 0; i < std::ssize(value->shape.elements); ++i)
    elements.push_back(hlo::get_tuple_element(value, i));
  return elements;
}

}  // namespace gspmd
