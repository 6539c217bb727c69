#include "ops/common/in_dim.h"

namespace gspmd {

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
