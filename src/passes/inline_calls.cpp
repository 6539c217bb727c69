#include "gspmd/passes/inline_calls.h"

namespace gspmd {
namespace {

Node* next_call(Computation& computation) {
  for (const auto& node : computation.nodes())
    if (node->is(Opcode::call) || node->is(Opcode::fusion)) return node.get();
  return nullptr;
}

bool inline_into(Computation& computation) {
  bool changed = false;
  while (Node* call = next_call(computation)) {
    Node* root = inline_computation(*call->called.at(0), computation, call->operands());
    if (call->sharding && !root->sharding && !root->is(Opcode::parameter))
      root->sharding = call->sharding;
    computation.replace_uses(call, root);
    computation.remove_dead();
    changed = true;
  }
  if (changed) computation.sort();
  return changed;
}

}  // namespace

bool inline_calls(Module& module) {
  bool changed = false;
  for (const auto& computation : module.computations()) changed |= inline_into(*computation);
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace gspmd
