#pragma once

// Forward accumulation over one computation.

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gspmd/ir/module.h"
#include "passes/differentiate/activity.h"

namespace gspmd {

// One run of forward accumulation: each value's tangent is emitted behind the nodes that are there.
// Loops and conditionals on the way are replaced by ones that carry tangents as well.
class Forward {
 public:
  // `tangents`: of the inputs, arrays of their shapes.
  Forward(Computation& c, std::span<Node* const> inputs, std::span<Node* const> tangents);

  // Up to these results. UserError: an op on the way has no derivative. The nodes are in order
  // afterwards.
  void run(std::span<Node* const> results);
  // Of a leaf of a node; nullptr: none, which is zero.
  Node* tangent(const Node* node, size_t leaf = 0) const;

 private:
  // What the results depend on through active values only.
  std::unordered_set<const Node*> on_the_way(std::span<const Node* const> results) const;
  void open_calls(std::span<Node* const> results);
  void visit(Node& node);
  std::vector<Node*> tangents_of_operands(const Node& node) const;
  std::vector<Node*> push_forward(Node& node);
  std::vector<Node*> replaced(Node& node, Node* value, const std::vector<size_t>& active);
  std::vector<Node*> push_loop(Node& loop);
  std::vector<Node*> push_conditional(Node& conditional);
  // --- markers.cpp
  std::vector<Node*> push_custom_jvp(Node& marker);
  std::vector<Node*> gradient_of_custom_vjp(Node& marker, const std::vector<Node*>& cotangents);

  Computation& c_;
  std::span<Node* const> inputs_;
  Activity activity_;
  std::unordered_map<const Node*, std::vector<Node*>> tangents_;
  std::unordered_map<const Node*, Node*> opened_;  // calls -> what they come to
  bool replaced_ = false;
};

}  // namespace gspmd
