#pragma once

// Reverse accumulation over one computation.

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gspmd/ir/module.h"
#include "passes/differentiate/activity.h"

namespace gspmd {

// The cotangent that comes to an array from outside.
struct Seed {
  Node* value = nullptr;
  Node* cotangent = nullptr;
};

// One run of reverse accumulation. Loops and conditionals on the way are replaced by ones that keep
// what their derivatives read: nodes of the forward computation, which emitted_forward() lists.
class Reverse {
 public:
  // Nodes before position `first` count as constants. `backward`: what emitted nodes are marked.
  Reverse(Computation& c, std::vector<Seed> seeds, std::span<Node* const> inputs, size_t first = 0,
          bool backward = true);

  // The cotangents of the inputs, in order; nullptr where none reaches one. Emits into c, whose
  // nodes are in order afterwards. UserError: an op on the way has no derivative.
  std::vector<Node*> run();

  const std::vector<Node*>& emitted_forward() const { return emitted_forward_; }

 private:
  void inline_calls();
  void visit(Node& node);
  void pull_back(Node& node, const std::vector<Node*>& cotangents);
  // The sum of what the readers gave a leaf, as one node; nullptr: nothing.
  Node* total(Node& node, size_t leaf);
  void give(Node& node, size_t leaf, Node* cotangent);
  // As give, leaf by leaf of all operands in order.
  void give_operands(Node& node, const std::vector<Node*>& cotangents);
  void replace(Node& node, Node* value, int64_t first);
  void take_forward(size_t first);  // nodes of c from this position on belong to the forward part

  void visit_loop(Node& loop, const std::vector<Node*>& cotangents);
  void visit_conditional(Node& conditional, const std::vector<Node*>& cotangents);
  // --- markers.cpp
  void visit_checkpoint(Node& marker, const std::vector<Node*>& cotangents);
  void visit_custom_vjp(Node& marker, const std::vector<Node*>& cotangents);
  void visit_custom_jvp(Node& marker, const std::vector<Node*>& cotangents);

  Computation& c_;
  std::vector<Seed> seeds_;
  std::span<Node* const> inputs_;
  bool backward_;
  Activity activity_;
  std::unordered_map<const Node*, std::vector<std::vector<Node*>>> given_;
  std::unordered_map<const Node*, std::vector<Node*>> totals_;
  std::vector<Node*> emitted_forward_;
};

// Lets the readers of `node` read the elements of `value` from `first` on, its leaves; elements of
// it stay the nodes that others know. What its readers read now.
Node* replace_by_elements(Node& node, Node* value, int64_t first);

// The value of a call or fusion, or of an op that is differentiated as what it expands to or in
// another form, emitted behind the others; nullptr: it is none of them.
Node* opened(Node& node);

}  // namespace gspmd
