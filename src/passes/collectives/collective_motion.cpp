#include "gspmd/passes/collectives/collective_motion.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/ops/builders.h"
#include "passes/collectives/loop_state.h"
#include "passes/graph/rewrite.h"
#include "passes/simplify/simplify_rules.h"

namespace gspmd {
namespace {

bool is_summing_all_reduce(const Node& node) {
  return node.is(Opcode::all_reduce) && node.operands().size() == 1 && !node.shape.is_tuple &&
         recognize_combiner(*node.called.at(0)) == Combiner::sum;
}

bool read_once(const Node& node) { return node.users().size() == 1 && !node.is_root(); }

// The same on all devices, and in all iterations: a constant, or one that is repeated.
bool is_constant(const Node& node) {
  const Node* at = &node;
  while (at->operands().size() == 1 && !at->op().has(kCollective) &&
         (at->op().has(kDataMovement) || at->op().has(kElementwise)))
    at = at->operand(0);
  return at->is(Opcode::constant);
}

// The operand in which a floating node is linear, so that it may be applied to each device's part
// of a sum, which is no larger; nullptr: none. A sum in fewer bits than the operand's is another.
Node* linear_operand(const Node& node) {
  if (node.shape.is_tuple || !is_floating(node.shape.dtype) || node.op().has(kCollective))
    return nullptr;
  Node* linear = nullptr;
  if (node.operands().size() == 1) {
    const DType from = node.operand(0)->shape.dtype;
    const bool widens = node.is(Opcode::convert) && is_floating(from) &&
                        dtype_size(from) <= dtype_size(node.shape.dtype);
    if (node.op().has(kLinear) || widens) linear = node.operand(0);
  } else if (node.operands().size() == 2) {
    const bool in_each = node.op().has(kLinearInEach);
    if ((in_each || node.is(Opcode::divide)) && is_constant(*node.operand(1)))
      linear = node.operand(0);
    else if (in_each && is_constant(*node.operand(0)))
      linear = node.operand(1);
  }
  const bool fits = linear != nullptr && !linear->shape.is_tuple &&
                    node.shape.elements_count() <= linear->shape.elements_count();
  return fits ? linear : nullptr;
}

// The all-reduce that a term of a sum is, or of which it is a linear function that nothing else
// reads.
Node* reduce_of_term(Node* term) {
  while (term != nullptr && read_once(*term)) {
    if (is_summing_all_reduce(*term)) return term;
    term = linear_operand(*term);
  }
  return nullptr;
}

// next[i] = state[i] + f(all-reduce(a)) + g(all-reduce(b)) ..., of linear f and g: the all-reduces.
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
    } else if (Node* const reduce = reduce_of_term(node)) {
      reduces.push_back(reduce);
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
  // A zero of each device's own adds up to zero: nothing is left to add behind the loop, where a
  // part of the sum may be all that is read.
  const std::optional<double> start = splat_value(before);
  const bool from_zero = start && *start == 0 && !std::signbit(*start);
  if (!from_zero)
    state.set_initial(i,
                      hlo::splat(outer, before->shape, neutral_contribution(Combiner::sum, dtype)));
  if (!after.empty()) {
    Node* const local = hlo::get_tuple_element(state.loop, static_cast<int64_t>(i));
    Node* const reduced = outer.append(Opcode::all_reduce, before->shape, {local}, model.attrs);
    copy_annotations(model, *reduced);
    reduced->called = {dtype == model.shape.dtype
                           ? model.called.at(0)
                           : binary_computation(outer.module(), Opcode::add, dtype)};
    Node* const sum = from_zero ? reduced : hlo::add(before, reduced);
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
