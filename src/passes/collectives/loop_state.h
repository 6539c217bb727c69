#pragma once

#include <optional>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// A while loop whose state is taken apart: every reader of the state, inside and after, reads one
// element of it by get-tuple-element. What the passes that move work over a loop's edge need.
struct LoopState {
  Node* loop = nullptr;
  Node* initial = nullptr;  // the tuple before the loop
  Node* next = nullptr;     // the tuple that ends the body
  Computation* condition = nullptr;
  Computation* body = nullptr;

  size_t size() const { return next->operands().size(); }
  // Element i at the start of an iteration; nullptr where the body does not read it. One node:
  // duplicates are merged by the first call.
  Node* read_in_body(size_t i) const;
  // Whether the body hands element i on as it was.
  bool is_invariant(size_t i) const;
  bool is_read_by_condition(size_t i) const;
  // The elements after the loop.
  std::vector<Node*> reads_after(size_t i) const;
  // Another element, with this value before the loop, that every iteration hands on; returns its
  // value in the body.
  Node* add_invariant(Node* value);
  // A tuple like `initial` with another element i.
  void set_initial(size_t i, Node* value);
};

// nullopt where a loop's state is used in another way, or its computations are called from
// elsewhere too.
std::optional<LoopState> loop_state(Node& loop);

// All while loops of the module whose state can be taken apart, inner ones first.
std::vector<LoopState> loop_states(Module& module);

}  // namespace gspmd
