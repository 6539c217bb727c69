#include "passes/collectives/loop_state.h"

#include <algorithm>

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

bool read_by_element(const Node& state) {
  return std::all_of(state.users().begin(), state.users().end(),
                     [](const Node* user) { return user->is(Opcode::get_tuple_element); });
}

std::vector<Node*> reads(const Node& state, size_t i) {
  std::vector<Node*> found;
  for (Node* user : state.users())
    if (user->attrs.index == static_cast<int64_t>(i)) found.push_back(user);
  return found;
}

int64_t callers(const Module& module, const Computation* called) {
  int64_t count = 0;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    for (const std::unique_ptr<Node>& node : computation->nodes())
      count += std::count(node->called.begin(), node->called.end(), called);
  return count;
}

}  // namespace

Node* LoopState::read_in_body(size_t i) const {
  const std::vector<Node*> found = reads(*body->parameters().at(0), i);
  if (found.empty()) return nullptr;
  for (size_t k = 1; k < found.size(); ++k) body->replace_uses(found[k], found[0]);
  return found[0];
}

bool LoopState::is_invariant(size_t i) const {
  const Node* value = next->operand(static_cast<int64_t>(i));
  return value->is(Opcode::get_tuple_element) && value->operand(0) == body->parameters().at(0) &&
         value->attrs.index == static_cast<int64_t>(i);
}

bool LoopState::is_read_by_condition(size_t i) const {
  return !reads(*condition->parameters().at(0), i).empty();
}

std::vector<Node*> LoopState::reads_after(size_t i) const { return reads(*loop, i); }

void LoopState::set_initial(size_t i, Node* value) {
  std::vector<Node*> elements = initial->operands();
  elements.at(i) = value;
  initial = hlo::tuple(loop->parent(), std::move(elements));
  loop->set_operand(0, initial);
}

Node* LoopState::add_invariant(Node* value) {
  std::vector<Node*> before = initial->operands(), after = next->operands();
  before.push_back(value);
  initial = hlo::tuple(loop->parent(), std::move(before));
  loop->set_operand(0, initial);
  loop->shape = initial->shape;
  condition->parameters().at(0)->shape = initial->shape;
  Node* const state = body->parameters().at(0);
  state->shape = initial->shape;
  Node* const inside = hlo::get_tuple_element(state, static_cast<int64_t>(after.size()));
  after.push_back(inside);
  next = hlo::tuple(*body, std::move(after));
  body->set_root(next);
  return inside;
}

std::optional<LoopState> loop_state(Node& loop) {
  LoopState state{&loop, loop.operand(0), nullptr, loop.called.at(0), loop.called.at(1)};
  state.next = state.body->root();
  const bool apart = state.next->is(Opcode::tuple) && state.next->users().empty() &&
                     loop.shape.is_tuple && !loop.is_root() && read_by_element(loop) &&
                     read_by_element(*state.body->parameters().at(0)) &&
                     read_by_element(*state.condition->parameters().at(0));
  if (!apart || state.condition == state.body) return std::nullopt;
  for (const Node* element : state.next->operands())
    if (element->shape.is_tuple) return std::nullopt;
  const Module& module = loop.parent().module();
  if (callers(module, state.body) != 1 || callers(module, state.condition) != 1)
    return std::nullopt;
  if (!state.initial->is(Opcode::tuple)) {
    std::vector<Node*> elements;
    for (size_t i = 0; i < state.size(); ++i)
      elements.push_back(hlo::get_tuple_element(state.initial, static_cast<int64_t>(i)));
    state.initial = hlo::tuple(loop.parent(), std::move(elements));
    loop.set_operand(0, state.initial);
  }
  return state;
}

std::vector<LoopState> loop_states(Module& module) {
  std::vector<Node*> loops;
  for (const std::unique_ptr<Computation>& computation : module.computations())  // callees first
    for (const std::unique_ptr<Node>& node : computation->nodes())
      if (node->is(Opcode::while_)) loops.push_back(node.get());
  std::vector<LoopState> states;
  for (Node* loop : loops)
    if (std::optional<LoopState> state = loop_state(*loop)) states.push_back(*state);
  return states;
}

}  // namespace gspmd
