#include "gspmd/passes/collectives/collective_motion.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/ops/builders.h"
#include "passes/collectives/loop_state.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

bool is_summing_all_reduce(const Node& node) {
  return node.is(Opcode::all_reduce) && node.operands().size() == 1 && !node.shape.is_tuple &&
         recognize_combiner(*node.called.at(0)) == Combiner::sum;
}

bool read_once(const Node& node) { return node.users().size() == 1 && !node.is_root(); }

// next[i] = state[i] + all-reduce(a) + all-reduce(b) ...: the sum's terms apart from the state.
std::optional<std::vector<Node*>> accumulated(const LoopState& state, size_t i) {
  if (state.is_read_by_condition(i)) return std::nullopt;
  Node* const start = state.read_in_body(i);
  if (start == nullptr || !read_once(*start)) return std::nullopt;
  Node* sum = state.next->operand(static_cast<int64_t>(i));
  if (std::count(state.next->operands().begin(), state.next->operands().end(), sum) != 1)
    return std::nullopt;
  std::vector<Node*> reduces, stack = {sum};
  bool found = false;
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    if (node == start) {
      found = true;
    } else if (is_sum(*node) && read_once(*node) && node->operand(0) != node->operand(1)) {
      stack.push_back(node->operand(1));
      stack.push_back(node->operand(0));
    } else if (is_summing_all_reduce(*node) && read_once(*node)) {
      reduces.push_back(node);
    } else {
      return std::nullopt;
    }
  }
  if (!found || reduces.empty()) return std::nullopt;
  for (const Node* reduce : reduces)
    if (!(reduce->attrs.replica_groups == reduces[0]->attrs.replica_groups)) return std::nullopt;
  return reduces;
}

bool sink(LoopState& state, size_t i) {
  const std::optional<std::vector<Node*>> reduces = accumulated(state, i);
  if (!reduces) return false;
  Computation& outer = state.loop->parent();
  const Node& model = *reduces->front();
  const EmissionScope scope(model.metadata, model.backward);
  Node* const before = state.initial->operand(static_cast<int64_t>(i));
  const std::vector<Node*> after = state.reads_after(i);
  const DType dtype = before->shape.dtype;
  state.set_initial(i,
                    hlo::splat(outer, before->shape, neutral_contribution(Combiner::sum, dtype)));
  if (!after.empty()) {
    Node* const local = hlo::get_tuple_element(state.loop, static_cast<int64_t>(i));
    Node* const reduced = outer.append(Opcode::all_reduce, before->shape, {local}, model.attrs);
    copy_annotations(model, *reduced);
    reduced->called = model.called;
    Node* const sum = hlo::add(before, reduced);
    for (Node* read : after) outer.replace_uses(read, sum);
  }
  for (Node* reduce : *reduces) state.body->replace_uses(reduce, reduce->operand(0));
  return true;
}

bool is_pure_collective(const Node& node) {
  return node.op().has(kCollective) && !node.shape.is_tuple && !node.operands().empty();
}

// Nodes of a body that compute the same in every iteration, in order, and can be copied before the
// loop: reads of elements that do not change, and cheap work on them.
class Invariants {
 public:
  explicit Invariants(const LoopState& state) {
    const Node* const parameter = state.body->parameters().at(0);
    for (const std::unique_ptr<Node>& node : state.body->nodes()) {
      const OpInfo& op = node->op();
      if (node->is(Opcode::get_tuple_element) && node->operand(0) == parameter) {
        if (state.is_invariant(static_cast<size_t>(node->attrs.index))) known_.insert(node.get());
        continue;
      }
      const bool simple = op.has(kElementwise) || op.has(kDataMovement) || op.has(kConstantLike) ||
                          is_pure_collective(*node);
      if (!simple || op.has(kSideEffect) || node->is(Opcode::parameter) || node->shape.is_tuple)
        continue;
      const bool all = std::all_of(node->operands().begin(), node->operands().end(),
                                   [&](const Node* operand) { return known_.contains(operand); });
      if (all) known_.insert(node.get());
    }
  }
  bool contains(const Node* node) const { return known_.contains(node); }

 private:
  std::unordered_set<const Node*> known_;
};

// Copies an invariant node and what it needs to stand before the loop.
Node* copy_before(const LoopState& state, Node* node, std::unordered_map<Node*, Node*>& copies) {
  std::vector<Node*> stack = {node};
  Computation& outer = state.loop->parent();
  while (!stack.empty()) {
    Node* const at = stack.back();
    if (copies.contains(at)) {
      stack.pop_back();
      continue;
    }
    if (at->is(Opcode::get_tuple_element)) {
      copies.emplace(at, state.initial->operand(at->attrs.index));
      continue;
    }
    const size_t depth = stack.size();
    for (Node* operand : at->operands())
      if (!copies.contains(operand)) stack.push_back(operand);
    if (stack.size() > depth) continue;
    std::vector<Node*> operands;
    for (Node* operand : at->operands()) operands.push_back(copies.at(operand));
    Node* const copy = outer.append(at->opcode(), at->shape, std::move(operands), at->attrs);
    copy_annotations(*at, *copy);
    copy->called = at->called;
    copies.emplace(at, copy);
  }
  return copies.at(node);
}

bool hoist(LoopState& state, int64_t limit_bytes) {
  const Invariants invariants(state);
  std::vector<Node*> moved;
  int64_t bytes = 0;
  for (const std::unique_ptr<Node>& node : state.body->nodes()) {
    if (!is_pure_collective(*node) || !invariants.contains(node.get())) continue;
    bytes += node->shape.bytes();
    if (bytes > limit_bytes) break;
    moved.push_back(node.get());
  }
  std::unordered_map<Node*, Node*> copies;
  for (Node* node : moved) {
    Node* const inside = state.add_invariant(copy_before(state, node, copies));
    state.body->replace_uses(node, inside);
  }
  return !moved.empty();
}

template <class Change>
bool for_each_loop(Module& module, Change change) {
  bool changed = false;
  for (LoopState& state : loop_states(module)) changed |= change(state);
  for (const std::unique_ptr<Computation>& computation : module.computations()) {
    if (!changed) break;
    computation->remove_dead();
    computation->sort();
  }
  return changed;
}

}  // namespace

bool sink_all_reduces(Module& module) {
  return for_each_loop(module, [](LoopState& state) {
    bool changed = false;
    for (size_t i = 0; i < state.size(); ++i) changed |= sink(state, i);
    return changed;
  });
}

bool hoist_collectives(Module& module, int64_t limit_bytes) {
  return for_each_loop(module, [&](LoopState& state) { return hoist(state, limit_bytes); });
}

}  // namespace gspmd
