// Completion that only keeps equal broadcasts of scalars apart (docs/spec/completion.md 1.3). They
// are what CSE joins most often, and one value that two unrelated parts of a program read carries
// the layout of one part into the other.

#include <unordered_map>

#include "ir/sharding_text.h"
#include "passes/complete/propagation.h"

namespace gspmd {
namespace {

bool is_scalar_broadcast(const Node& node) {
  return node.is(Opcode::broadcast) && node.operand(0)->rank() == 0;
}

}  // namespace

bool drop_cse_prevention(Module& module) {
  bool dropped = false;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (!node->frontend_attributes.present() ||  // which erasing would make it
          node->frontend_attributes.erase(kCsePreventionAttribute) == 0)
        continue;
      node->sharding.reset();
      node->origins.clear();
      dropped = true;
    }
  return dropped;
}

bool propagate_to_scalar_broadcasts(Module& module, PropagateOptions options) {
  bool changed = drop_cse_prevention(module);
  options.cse_prevention_only = false;
  const std::unique_ptr<Module> completed = module.clone();
  propagate(*completed, options);  // keeps the names of computations and nodes
  for (const auto& computation : module.computations()) {
    std::unordered_map<std::string_view, const Node*> found;
    for (const auto& node : completed->find(computation->name())->nodes())
      if (is_scalar_broadcast(*node) && node->sharding) found.emplace(node->name(), node.get());
    for (const auto& node : computation->nodes()) {
      const auto at = found.find(node->name());
      if (node->sharding || at == found.end()) continue;
      node->sharding = at->second->sharding;
      node->origins = at->second->origins;
      node->frontend_attributes[kCsePreventionAttribute] = "true";
      changed = true;
    }
  }
  return changed;
}

}  // namespace gspmd
