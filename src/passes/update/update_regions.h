#pragma once

// Where a module updates its state.

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/passes/update/shard_updates.h"

namespace gspmd {

// Values of equal dims that are computed from each other element by element.
struct UpdateRegion {
  std::vector<Node*> state;      // entry parameters
  std::vector<Node*> inner;      // computed from state or entries
  std::vector<Node*> entries;    // come from elsewhere, as gradients
  std::vector<StatePair> pairs;  // of which both ends are here
  bool has_rows = false;         // sums of rows are made of it, or spread over it
  const Dims& dims() const { return (state.empty() ? inner : state).front()->dims(); }
};

// The regions that update a tensor of state, in the order of its parameters, and the sums that
// they make: reduces of their values.
struct Updates {
  std::vector<UpdateRegion> regions;
  std::unordered_map<const Node*, size_t> region_of;  // of state and inner
  std::unordered_set<const Node*> sums;
};

// Regions of tensors with one dim or more.
Updates find_updates(const Module& module, const std::vector<StatePair>& state);

}  // namespace gspmd
