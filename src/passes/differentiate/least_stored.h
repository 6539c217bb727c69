#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// What is to be had elsewhere, and how values of a computation can be had there.
struct StoredProblem {
  std::vector<Node*> wanted;                     // values to be had
  std::function<bool(const Node&)> is_there;     // is there anyway, or is made from nothing
  std::function<bool(const Node&)> is_computed;  // may be computed there from its operands
};

// The values whose storing lets all that is wanted be computed there, of the fewest bytes: a cut of
// least weight through the graph above what is wanted (as Chen et al. 2016 and PyTorch's
// partitioner choose what a backward pass keeps). Each is wanted or above something wanted. In the
// order of their ids.
std::vector<Node*> least_stored(const StoredProblem& problem);

}  // namespace gspmd
