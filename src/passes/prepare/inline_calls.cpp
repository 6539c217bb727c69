#include "gspmd/passes/prepare/inline_calls.h"

#include <unordered_map>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

// More than any program has; a chain of n calls to "twice the one before" would be 2^n.
constexpr int64_t kMaxNodes = int64_t{1} << 22;

bool is_call(const Node& node) { return node.is(Opcode::call) || node.is(Opcode::fusion); }

// UserError where the computations, calls written out, have more nodes than can be worked on.
void check_size(const Module& module) {
  std::unordered_map<const Computation*, int64_t> sizes;  // callees stand first
  for (const auto& computation : module.computations()) {
    auto size = static_cast<int64_t>(computation->nodes().size());
    for (const auto& node : computation->nodes())
      if (is_call(*node)) size += sizes.at(node->called.at(0));
    if (size > kMaxNodes)
      user_error(
          "call: \"{}\" with its calls written out has {} instructions; at most {} are supported",
          computation->name(), size, kMaxNodes);
    sizes.emplace(computation.get(), size);
  }
}

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
  check_size(module);
  bool changed = false;
  for (const auto& computation : module.computations()) changed |= inline_into(*computation);
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace gspmd
