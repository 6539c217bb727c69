#pragma once

#include <concepts>

#include "gspmd/ir/op.h"

namespace gspmd {

// Rewrites every computation of a module; those that change lose what nobody uses and are sorted.
// Returns whether one changed. `rewrite` adds no computations.
template <std::predicate<Computation&> Rewrite>
bool rewrite_each(Module& module, Rewrite rewrite) {
  bool changed = false;
  for (const auto& computation : module.computations()) {
    if (!rewrite(*computation)) continue;
    computation->remove_dead();
    computation->sort();
    changed = true;
  }
  return changed;
}

// Whether some node of the module is one of those.
template <std::predicate<const Node&> Is>
bool any_node(const Module& module, Is is) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (is(*node)) return true;
  return false;
}

// The sum of two values, element by element: parts of it may be added in any order.
inline bool is_sum(const Node& node) {
  return node.op().has(kLinear) && node.op().has(kCommutative);
}

}  // namespace gspmd
