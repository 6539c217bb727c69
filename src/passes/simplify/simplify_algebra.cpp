#include "gspmd/ir/place.h"
#include "gspmd/passes/simplify/simplify.h"
#include "ops/convolution/convolution.h"
#include "passes/simplify/simplify_rules.h"

namespace gspmd {
namespace {

// Rewrites may enable each other; real graphs settle in two or three rounds.
constexpr int kRounds = 8;

std::vector<std::vector<SimplifyRule>> build_index() {
  std::vector<std::vector<SimplifyRule>> index(static_cast<size_t>(opcode_count()));
  for (const auto rules : {shape_rules(), arithmetic_rules(), collective_rules()})
    for (const SimplifyRule& rule : rules) index[static_cast<size_t>(rule.opcode)].push_back(rule);
  return index;
}

Node* rewritten(Node& node) {
  static const std::vector<std::vector<SimplifyRule>> index = build_index();
  for (const SimplifyRule& rule : index[static_cast<size_t>(node.opcode())])
    if (Node* const to = rule.rewrite(node)) return to;
  if (Node* const to = fold_padding(node)) return to;
  return fold_constants(node);
}

// Puts `to` in `node`'s place unless that loses a sharding that was asked for.
bool replace(Computation& computation, Node& node, Node& to, bool is_new) {
  if (!(to.shape == node.shape)) return false;
  if (is_new) {
    copy_annotations(node, to);
  } else if (node.sharding && to.sharding != node.sharding) {
    return false;
  }
  computation.replace_uses(&node, &to);
  return true;
}

bool simplify_once(Computation& computation) {
  bool changed = false;
  const size_t count = computation.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    Node& node = *computation.nodes()[i];
    if (node.users().empty() && !node.is_root()) continue;
    const size_t before = computation.nodes().size();
    Node* const to = at_node(node, [&] { return rewritten(node); });
    if (to == nullptr) continue;
    const bool is_new =
        before < computation.nodes().size() && to->id() >= computation.nodes()[before]->id();
    changed |= replace(computation, node, *to, is_new);
  }
  if (!changed && count == computation.nodes().size()) return false;
  computation.remove_dead();
  computation.sort();
  return changed;
}

}  // namespace

bool simplify_algebra(Module& module) {
  bool changed = false;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    for (int round = 0; round < kRounds && simplify_once(*computation); ++round) changed = true;
  return changed;
}

}  // namespace gspmd
