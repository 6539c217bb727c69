// Constants that code inside and outside of manual regions reads. A value is manual or it is not,
// and what reads a manual value becomes manual too: such constants are made twice.

#include <algorithm>
#include <set>

#include "ops/common/completion.h"
#include "passes/complete/propagation.h"

namespace gspmd {
namespace {

using NodeSet = std::set<const Node*>;

// Ops that only rewrite what they are given, so that making them twice changes nothing.
bool rewrites(const Node& node) {
  return (node.op().has(kDataMovement) || node.op().has(kElementwise)) && node.called.empty() &&
         !has_effects(node) && !node.is(Opcode::custom_call);
}

bool is_all_in(const NodeSet& nodes, const std::vector<Node*>& of) {
  return std::all_of(of.begin(), of.end(), [&](Node* n) { return nodes.contains(n); });
}

// What is made of constants alone and has no annotation.
NodeSet made_of_constants(const Computation& computation) {
  NodeSet found;
  for (const auto& node : computation.nodes()) {
    if (node->sharding || node->shape.is_tuple) continue;
    const bool leaf = node->is(Opcode::constant) || node->is(Opcode::iota);
    const bool made = !node->operands().empty() && rewrites(*node);
    if (leaf || (made && is_all_in(found, node->operands()))) found.insert(node.get());
  }
  return found;
}

// Whether it reads its operands in a region, not as a region's start.
bool reads_inside(const Node& user, const NodeSet& manual) {
  return manual.contains(&user) && user.attrs.custom_call_target != "SPMDFullToShardShape";
}

// What is manual or computed from such, up to the end of its region; and what such is computed from
// that is no constant, back to the start of the region.
NodeSet inside_manual(const Computation& computation, const NodeSet& constants) {
  NodeSet found;
  for (const auto& node : computation.nodes()) {
    if (node->shape.is_tuple || node->attrs.custom_call_target == "SPMDShardToFullShape") continue;
    const bool follows = !node->sharding &&
                         std::any_of(node->operands().begin(), node->operands().end(),
                                     [&](const Node* operand) { return found.contains(operand); });
    if (follows || is_all_manual(node->sharding)) found.insert(node.get());
  }
  for (auto node = computation.nodes().rbegin(); node != computation.nodes().rend(); ++node) {
    if ((*node)->sharding || constants.contains(node->get())) continue;
    const std::vector<Node*> users = (*node)->users();
    if (std::any_of(users.begin(), users.end(),
                    [&](const Node* user) { return reads_inside(*user, found); }))
      found.insert(node->get());
  }
  return found;
}

bool split(Computation& computation) {
  const auto& nodes = computation.nodes();
  if (std::none_of(nodes.begin(), nodes.end(),
                   [](const auto& node) { return is_all_manual(node->sharding); }))
    return false;
  const NodeSet constants = made_of_constants(computation);
  NodeSet manual = inside_manual(computation, constants);
  if (manual.empty()) return false;
  std::vector<Node*> readers_first;
  for (const auto& node : computation.nodes())
    if (constants.contains(node.get())) readers_first.push_back(node.get());
  std::reverse(readers_first.begin(), readers_first.end());
  bool changed = false;
  for (Node* node : readers_first) {
    std::vector<Node*> inside;
    for (Node* user : node->users())
      if (reads_inside(*user, manual)) inside.push_back(user);
    if (inside.empty()) continue;
    if (inside.size() == node->users().size() && !node->is_root()) {
      manual.insert(node);
      continue;
    }
    Node* twin = computation.append(node->opcode(), node->shape, node->operands(), node->attrs,
                                    node->name());
    twin->metadata = node->metadata;
    for (Node* user : inside)
      for (size_t i = 0; i < user->operands().size(); ++i)
        if (user->operands()[i] == node) user->set_operand(static_cast<int64_t>(i), twin);
    manual.insert(twin);
    changed = true;
  }
  if (changed) computation.sort();
  return changed;
}

}  // namespace

bool split_manual_constants(Module& module) {
  bool changed = false;
  for (const auto& computation : module.computations()) changed |= split(*computation);
  return changed;
}

}  // namespace gspmd
