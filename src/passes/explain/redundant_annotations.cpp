#include "gspmd/passes/explain/explain_sharding.h"
#include "ops/control/control.h"

namespace gspmd {
namespace {

// Shardings of all nodes, in order.
std::vector<std::optional<Sharding>> shardings_of(const Module& module) {
  std::vector<std::optional<Sharding>> all;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) all.push_back(node->sharding);
  return all;
}

std::vector<std::optional<Sharding>> completed(std::unique_ptr<Module> module,
                                               const PropagateOptions& options) {
  propagate(*module, options);
  return shardings_of(*module);
}

// A layout that the user gave, not what differentiation makes of it or a region's border needs.
bool is_users(const Node& node) {
  return is_annotation(node) && !node.backward && node.sharding &&
         node.sharding->shard_group() == 0 && node.sharding->manual_digits().empty() &&
         !node.sharding->is_manual();
}

Node* twin_of(Module& module, int64_t id) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->id() == id) return node.get();
  return nullptr;
}

}  // namespace

std::vector<const Node*> redundant_annotations(const Module& given, const PropagateOptions& options,
                                               int64_t most) {
  std::vector<const Node*> redundant;
  std::optional<std::vector<std::optional<Sharding>>> wanted;
  for (const auto& computation : given.computations())
    for (const auto& node : computation->nodes()) {
      if (!is_users(*node) || most-- <= 0) continue;
      if (!wanted) wanted = completed(given.clone(), options);
      std::unique_ptr<Module> without = given.clone();
      twin_of(*without, node->id())->sharding.reset();
      if (completed(std::move(without), options) == *wanted) redundant.push_back(node.get());
    }
  return redundant;
}

}  // namespace gspmd
