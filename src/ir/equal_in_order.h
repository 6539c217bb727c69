#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Whether two computations have the same nodes in the same order with the same operands and root,
// where `alike` says of each pair of nodes whether all else of them is the same.
template <class Alike>
bool equal_in_order(const Computation& a, const Computation& b, Alike&& alike) {
  if (a.nodes().size() != b.nodes().size()) return false;
  FlatMap<const Node*, const Node*> twins;
  twins.reserve(a.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node& x = *a.nodes()[i];
    const Node& y = *b.nodes()[i];
    if (x.operands().size() != y.operands().size() || !alike(x, y)) return false;
    for (size_t k = 0; k < x.operands().size(); ++k)
      if (twins.at(x.operands()[k]) != y.operands()[k]) return false;
    twins.emplace(&x, &y);
  }
  if (a.root() == nullptr || b.root() == nullptr) return a.root() == b.root();
  return twins.at(a.root()) == b.root();
}

}  // namespace gspmd
