#include "gspmd/ir/effects.h"

#include <algorithm>
#include <span>

#include "gspmd/ir/op.h"
#include "ir/node_marks.h"

namespace gspmd {
namespace {

// A size that may be less than the full one: setting it ends the run.
bool checks_size(const Node& node) {
  if (!node.is(Opcode::set_dimension_size) || node.operands().size() != 2) return false;
  const Node& size = *node.operand(1);
  const auto dim = node.attrs.dimensions.empty() ? -1 : node.attrs.dimensions[0];
  return !size.is(Opcode::constant) || size.attrs.literal.empty() || dim < 0 ||
         dim >= node.shape.rank() ||
         size.attrs.literal.at(0) != static_cast<double>(node.shape.dims[static_cast<size_t>(dim)]);
}

// The computations that run where the node runs.
std::span<Computation* const> run_by(const Node& node) {
  const std::span<Computation* const> called(node.called);
  if (node.is(Opcode::while_) || node.is(Opcode::conditional) || node.is(Opcode::call))
    return called;
  // Of a custom-call the first computation is what it does; others say how it is differentiated.
  if (node.is(Opcode::custom_call) && !called.empty()) return called.first(1);
  return {};
}

// Whether instructions have debug calls and the like inside; a computation without them is looked
// into once.
class Search {
 public:
  bool speaks(const Node& node) {
    std::vector<const Computation*> open, seen;
    bool found = speaks(node, open);
    while (!found && !open.empty()) {
      const Computation& computation = *open.back();
      open.pop_back();
      if (!silent_.insert(&computation).second) continue;
      seen.push_back(&computation);
      found = std::any_of(computation.nodes().begin(), computation.nodes().end(),
                          [&](const std::unique_ptr<Node>& inner) { return speaks(*inner, open); });
    }
    if (found)
      for (const Computation* computation : seen) silent_.erase(computation);
    return found;
  }

 private:
  // Whether the node itself is a debug call or may end the run; what it runs is left to be looked
  // into.
  static bool speaks(const Node& node, std::vector<const Computation*>& open) {
    if (node.frontend_attributes.count(kReplaced) != 0) return false;
    const std::span<Computation* const> inside = run_by(node);
    open.insert(open.end(), inside.begin(), inside.end());
    return is_debug_call(node) || checks_size(node);
  }

  std::unordered_set<const Computation*> silent_;
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

NodeMarks running_marks(const Computation& computation) {
  NodeMarks running(computation);
  if (computation.root() != nullptr) running.insert_needed_by_root(computation);
  Search search;
  std::vector<const Node*> more;
  // What a value needs is not asked: where all are needed, no computation is looked into.
  for (const std::unique_ptr<Node>& node : computation.nodes())
    if (!running.contains(node.get()) && (node->op().has(kSideEffect) || search.speaks(*node)))
      more.push_back(node.get());
  running.insert_needed(more);
  return running;
}

FlatSet<const Node*> running_nodes(const Computation& computation) {
  const NodeMarks marks = running_marks(computation);
  FlatSet<const Node*> running;
  running.reserve(marks.size());
  for (const std::unique_ptr<Node>& node : computation.nodes())
    if (marks.contains(node.get())) running.insert(node.get());
  return running;
}

}  // namespace gspmd
