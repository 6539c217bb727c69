#include "ops/sort/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

// Sorts arrays together, by `comparator` or, without one, by the first of them, ascending.
Nodes sorted(Nodes arrays, const Attributes& attrs, const Computation* comparator) {
  Computation& c = arrays[0]->parent();
  Computation* const less = c.module().add_computation("less");
  {
    const EmissionScope scope(Metadata{}, false);
    Nodes sides;
    for (const Node* array : arrays)
      for (int side = 0; side < 2; ++side)
        sides.push_back(hlo::parameter(*less, std::ssize(sides), Shape(array->shape.dtype, {})));
    if (comparator != nullptr) sides.resize(comparator->parameters().size());
    less->set_root(comparator != nullptr ? inline_computation(*comparator, *less, sides)
                                         : hlo::compare(sides[0], sides[1], Direction::lt));
  }
  Attributes own;
  own.dimensions = attrs.dimensions;
  own.scalar.edit().is_stable = attrs.scalar->is_stable;
  Node* const result = emit(c, Opcode::sort, std::move(arrays), std::move(own), {}, {less});
  return hlo::leaves(result);
}

}  // namespace

// Where each element came from is sorted along; sorted by that, cotangents are back in their
// places.
Nodes sort_gradient(Node& node, const Nodes& cotangents) {
  Nodes arrays = node.operands();
  const DType place = DType::s32;
  arrays.push_back(
      hlo::iota(node.parent(), Shape(place, node.operand(0)->dims()), node.attrs.dimensions[0]));
  Nodes back{sorted(std::move(arrays), node.attrs, node.called[0]).back()};
  for (Node* cotangent : cotangents)
    if (cotangent != nullptr) back.push_back(cotangent);
  back = sorted(std::move(back), node.attrs, nullptr);
  Nodes result(cotangents.size(), nullptr);
  size_t next = 1;
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i] != nullptr) result[i] = back[next++];
  return result;
}

// Cotangents of the values go to the places that the indices say.
Nodes topk_gradient(Node& node, const Nodes& cotangents) {
  if (cotangents[0] == nullptr) return {nullptr};
  Node* const x = node.operand(0);
  const int64_t last = x->rank() - 1;
  Node* const places = hlo::get_tuple_element(&node, 1);
  Dims dims = places->dims();
  dims.push_back(1);
  ScatterDims scatter;
  scatter.inserted_window_dims = scatter.scatter_dims_to_operand_dims = {last};
  scatter.input_batching_dims = scatter.scatter_indices_batching_dims = all_dims(last);
  scatter.index_vector_dim = last + 1;
  Computation* const add = binary_computation(node.parent().module(), Opcode::add, x->shape.dtype);
  return {hlo::scatter(zeros_like(*x), hlo::reshape(places, dims), cotangents[0], scatter, add)};
}

}  // namespace gspmd
