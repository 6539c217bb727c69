#include "gspmd/passes/prepare/inline_calls.h"

#include "ir/call_nesting.h"

namespace gspmd {
namespace {

bool is_call(const Node& node) { return node.is(Opcode::call) || node.is(Opcode::fusion); }

// What is called has no calls left in it.
bool inline_into(Computation& computation) {
  std::vector<Node*> calls;
  for (const auto& node : computation.nodes())
    if (is_call(*node)) calls.push_back(node.get());
  for (Node* call : calls) {
    Node* root = inline_computation(*call->called.at(0), computation, call->operands());
    if (call->sharding && !root->sharding && !root->is(Opcode::parameter))
      root->sharding = call->sharding;
    computation.replace_uses(call, root);
  }
  if (calls.empty()) return false;
  computation.remove_dead();
  computation.sort();
  return true;
}

}  // namespace

bool inline_calls(Module& module) {
  check_nesting(module);
  bool changed = false;
  for (const auto& computation : module.computations()) changed |= inline_into(*computation);
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace gspmd
