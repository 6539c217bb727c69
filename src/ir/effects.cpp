#include "gspmd/ir/effects.h"

#include <algorithm>
#include <unordered_map>

#include "gspmd/ir/op.h"

namespace gspmd {
namespace {

// Whether computations have debug calls; each is looked into once.
class Search {
 public:
  bool speaks(const Node& node) {
    if (node.frontend_attributes.count(kReplaced) != 0) return false;
    if (is_debug_call(node)) return true;
    const bool runs_what_it_calls = node.is(Opcode::while_) || node.is(Opcode::conditional) ||
                                    node.is(Opcode::call) || node.is(Opcode::custom_call);
    if (!runs_what_it_calls || node.called.empty()) return false;
    // Of a custom-call the first computation is what it does; others say how it is differentiated.
    const auto last = node.is(Opcode::custom_call) ? node.called.begin() + 1 : node.called.end();
    return std::any_of(node.called.begin(), last,
                       [&](const Computation* called) { return speaks(*called); });
  }

 private:
  bool speaks(const Computation& computation) {
    const auto [known, fresh] = known_.emplace(&computation, false);
    if (!fresh) return known->second;
    const bool any =
        std::any_of(computation.nodes().begin(), computation.nodes().end(),
                    [&](const std::unique_ptr<Node>& inner) { return speaks(*inner); });
    return known_[&computation] = any;
  }

  std::unordered_map<const Computation*, bool> known_;
};

}  // namespace

bool is_debug_call(const Node& node) {
  return node.is(Opcode::custom_call) && (node.attrs.custom_call_target == kDebugPrint ||
                                          node.attrs.custom_call_target == kDebugCheck ||
                                          node.attrs.custom_call_target == kCheckNumbers);
}

bool has_side_effect(const Node& node) {
  return node.op().has(kSideEffect) || Search().speaks(node);
}

std::vector<const Node*> roots_and_effects(const Computation& computation) {
  std::vector<const Node*> kept;
  if (computation.root() != nullptr) kept.push_back(computation.root());
  Search search;
  for (const std::unique_ptr<Node>& node : computation.nodes())
    if (node->op().has(kSideEffect) || search.speaks(*node)) kept.push_back(node.get());
  return kept;
}

}  // namespace gspmd
