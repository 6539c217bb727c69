#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Which leaves of which values depend on the inputs in a way that has a derivative: floating point
// and complex ones, not behind stop_gradient.
class Activity {
 public:
  // Of the nodes of `c` from position `first` on, in order; `inputs` are arrays of c.
  Activity(const Computation& c, std::span<Node* const> inputs, size_t first = 0);

  bool of(const Node* node, size_t leaf = 0) const;
  bool any(const Node* node) const { return leaves_.count(node) != 0; }
  bool any_operand(const Node& node) const;
  // Nodes with an active leaf, operands first.
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  std::vector<bool> of_operands(const Node& node) const;  // leaf by leaf
  std::vector<bool> after(const Node& node) const;
  std::vector<bool> after_loop(const Node& loop) const;

  std::unordered_map<const Node*, std::vector<bool>> leaves_;
  std::vector<Node*> nodes_;
};

bool has_derivative(DType dtype);
// "dot.3 f32[8,16], einsum (model.cpp:12)", for messages.
std::string described(const Node& node);

// Which leaves of a loop's state depend on active ones after any number of steps.
std::vector<bool> active_state(const Computation& body, std::vector<bool> active);

}  // namespace gspmd
