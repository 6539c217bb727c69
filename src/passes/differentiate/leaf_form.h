#pragma once

// Computations whose parameters and results are arrays, and copies of parts of them.

#include <string>
#include <unordered_map>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// What stands for a node in another computation.
using Twins = std::unordered_map<const Node*, Node*>;

// Copies into `target` what `roots` need of their computation and `twins` does not have yet; adds
// the copies to `twins`. An element of a tuple is the value that went into the tuple.
void copy_needed(const std::vector<Node*>& roots, Computation& target, Twins& twins);

// Adds the nodes of `c` that have a side effect to the roots.
void add_effects(const Computation& c, std::vector<Node*>& roots);

// A computation with a parameter for each leaf of its parameters.
struct LeafForm {
  Computation* computation = nullptr;
  std::vector<Node*> parameters;
  std::vector<Node*> results;  // the leaves of what the source returns
};

// A copy of `source` in this form, a new computation of `into`.
LeafForm leaf_form(const Computation& source, Module& into);

// The same in a module of its own, to be looked at only.
struct ScratchLeafForm : LeafForm {
  explicit ScratchLeafForm(const Computation& source);
  Module module;
};

// Appends a parameter of this shape.
Node* add_parameter(Computation& c, const Shape& shape, const std::string& name);

}  // namespace gspmd
