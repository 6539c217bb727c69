#include "passes/prepare/expand_ops.h"

#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"

namespace gspmd {
namespace {

bool is_manual(const std::optional<Sharding>& s) {
  return s && (s->is_manual() || has_manual_digits(*s));
}

bool in_manual_region(const Node& node) {
  if (is_manual(node.sharding)) return true;
  for (const Node* operand : node.operands())
    if (is_manual(operand->sharding)) return true;
  return false;
}

void annotate(Node& expanded, const std::optional<Sharding>& sharding) {
  if (!sharding) return;
  expanded.sharding = sharding;
  if (!expanded.is(Opcode::tuple)) return;
  const std::vector<Node*> leaves = hlo::leaves(&expanded);
  for (size_t i = 0; i < leaves.size(); ++i)
    leaves[i]->sharding = sharding->is_tuple() ? sharding->elements().at(i) : *sharding;
}

bool expand_one(Node& node) {
  Metadata metadata = node.metadata;
  if (metadata.op_name.empty()) metadata.op_name = node.name();
  const EmissionScope scope(std::move(metadata), node.backward);
  Node* expanded = node.op().expand(node);
  if (!expanded) return false;
  annotate(*expanded, node.sharding);
  node.parent().replace_uses(&node, expanded);
  return true;
}

bool expand_in(Computation& computation) {
  std::vector<Node*> found;
  for (const auto& node : computation.nodes())
    if (node->op().expand && !in_manual_region(*node)) found.push_back(node.get());
  bool changed = false;
  for (Node* node : found) changed |= at_node(*node, [&] { return expand_one(*node); });
  if (!changed) return false;
  computation.remove_dead();
  computation.sort();
  return true;
}

}  // namespace

bool expand_ops(Module& module) {
  bool changed = false;
  std::vector<Computation*> computations;  // sums may add one
  for (const auto& computation : module.computations()) computations.push_back(computation.get());
  for (Computation* computation : computations) changed |= expand_in(*computation);
  if (changed) module.sort_computations();
  return changed;
}

}  // namespace gspmd
