#include "gspmd/passes/prepare/inline_calls.h"

#include <set>

#include "gspmd/ir/op.h"
#include "ir/call_nesting.h"

namespace gspmd {
namespace {

// Whether a kernel of its own cannot run it.
bool needs_executor(const Computation& computation, std::set<const Computation*>& seen) {
  if (!seen.insert(&computation).second) return false;
  for (const auto& node : computation.nodes()) {
    if (node->op().has(kCollective) || node->is(Opcode::partition_id) ||
        node->is(Opcode::conditional) || node->is(Opcode::while_))
      return true;
    for (const Computation* called : node->called)
      if (needs_executor(*called, seen)) return true;
  }
  return false;
}

bool is_inlined(const Node& node, Fusions fusions) {
  if (!node.is(Opcode::fusion)) return node.is(Opcode::call);
  std::set<const Computation*> seen;
  return fusions == Fusions::inlined || needs_executor(*node.called.at(0), seen);
}

// What is called has nothing left in it that is to be inlined.
bool inline_into(Computation& computation, Fusions fusions) {
  std::vector<Node*> calls;
  for (const auto& node : computation.nodes())
    if (is_inlined(*node, fusions)) calls.push_back(node.get());
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

bool inline_calls(Module& module, Fusions fusions) {
  check_nesting(module);
  bool changed = false;
  for (const auto& computation : module.computations())
    changed |= inline_into(*computation, fusions);
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace gspmd
