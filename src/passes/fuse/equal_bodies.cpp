#include "passes/fuse/equal_bodies.h"

#include <algorithm>

namespace gspmd {
namespace {

bool equal_dynamic_dims(const Shape& a, const Shape& b) {
  return a.dynamic_dims == b.dynamic_dims &&
         std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(), b.elements.end(),
                    equal_dynamic_dims);
}

bool equal_calls(const Node& a, const Node& b) {
  return std::equal(
      a.called.begin(), a.called.end(), b.called.begin(), b.called.end(),
      [](const Computation* x, const Computation* y) { return x == y || equal_bodies(*x, *y); });
}

}  // namespace

bool equal_bodies(const Computation& a, const Computation& b) {
  if (a.nodes().size() != b.nodes().size()) return false;
  FlatMap<const Node*, const Node*> twins;
  twins.reserve(a.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node& x = *a.nodes()[i];
    const Node& y = *b.nodes()[i];
    const bool alike = x.is(y.opcode()) && x.shape == y.shape &&
                       equal_dynamic_dims(x.shape, y.shape) &&
                       x.operands().size() == y.operands().size() && equal(x.attrs, y.attrs);
    if (!alike || !equal_calls(x, y)) return false;
    for (size_t k = 0; k < x.operands().size(); ++k)
      if (twins.at(x.operands()[k]) != y.operands()[k]) return false;
    twins.emplace(&x, &y);
  }
  const Node* const* const root = a.root() == nullptr ? nullptr : twins.find(a.root());
  return (root == nullptr ? nullptr : *root) == b.root();
}

}  // namespace gspmd
