#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/common/loop_lowering.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

// By position in the graph: the groups that compute the value.
using GroupsOf = std::vector<std::vector<const LoopGroup*>>;

// Makes one group into a fusion node.
class FusionRewriter {
 public:
  FusionRewriter(Computation& computation, const LoopGraph& graph, const LoopGroup& group)
      : c_(computation), g_(graph), group_(group) {}

  // Members whose value somebody outside reads, given who else computes it for themselves.
  std::vector<int64_t> outputs(const GroupsOf& all) const {
    std::vector<int64_t> out;
    for (const int64_t n : group_.members) {
      const Node& node = *g_.nodes[static_cast<size_t>(n)];
      bool read = node.is_root();
      for (const Node* user : node.users()) read |= read_outside(n, *user, all);
      if (read) out.push_back(n);
    }
    return out;
  }

  // False, and nothing has changed, where it is too many pieces.
  bool rewrite(const std::vector<int64_t>& outputs) {
    FlatMap<const Node*, Node*> copies;
    fused_ = c_.module().add_computation(c_.module().unique_name("fused"));
    const PositionSet live = needed(outputs);
    std::vector<Node*> results;
    bool reduces = false;
    for (const int64_t n : live) {
      const Node& node = *g_.nodes[static_cast<size_t>(n)];
      copy(node, copies);
      reduces |= g_.folds(n);
    }
    for (const int64_t n : outputs) results.push_back(copies.at(g_.nodes[static_cast<size_t>(n)]));
    fused_->set_root(results.size() == 1 ? results[0] : hlo::tuple(*fused_, results));
    if (has_views() && !is_loop_program(*fused_)) {
      c_.module().remove_computation(fused_);
      return false;
    }
    const Node& last = *g_.nodes[static_cast<size_t>(outputs.back())];
    Node* fusion = append_fusion(c_, *fused_, inputs_, reduces ? "kInput" : "kLoop", last);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Node* value = fusion;
      if (outputs.size() > 1) {
        value = hlo::get_tuple_element(fusion, static_cast<int64_t>(i));
        value->metadata = g_.nodes[static_cast<size_t>(outputs[i])]->metadata;
        value->backward = last.backward;
      }
      replacements_.emplace_back(g_.nodes[static_cast<size_t>(outputs[i])], value);
    }
    return true;
  }

  const std::vector<std::pair<Node*, Node*>>& replacements() const { return replacements_; }

 private:
  bool read_outside(int64_t n, const Node& user, const GroupsOf& all) const {
    const int64_t at = g_.position_of.at(&user);
    if (g_.absorbed[static_cast<size_t>(at)])  // copied into its readers
      return user.is_root() ||
             std::any_of(user.users().begin(), user.users().end(),
                         [&](const Node* reader) { return read_outside(n, *reader, all); });
    for (const LoopGroup* group : all[static_cast<size_t>(at)])
      if (!group->contains(n)) return true;
    return all[static_cast<size_t>(at)].empty();
  }

  bool has_views() const {
    const auto& nodes = fused_->nodes();
    return std::any_of(nodes.begin(), nodes.end(),
                       [](const auto& node) { return loop_view(*node) != LoopView::none; });
  }

  PositionSet needed(const std::vector<int64_t>& outputs) const {
    PositionSet live;
    std::vector<int64_t> pending = outputs;
    while (!pending.empty()) {
      const int64_t n = pending.back();
      pending.pop_back();
      if (!group_.contains(n) || !live.insert(n).second) continue;
      const auto& reads = g_.reads[static_cast<size_t>(n)];
      pending.insert(pending.end(), reads.begin(), reads.end());
    }
    return live;
  }

  Node* copy(const Node& node, FlatMap<const Node*, Node*>& copies) {
    if (Node* const* found = copies.find(&node)) return *found;
    const int64_t n = g_.position_of.at(&node);
    if (!g_.absorbed[static_cast<size_t>(n)] && !group_.contains(n)) {
      inputs_.push_back(g_.nodes[static_cast<size_t>(n)]);
      return copies[&node] = add_parameter(*fused_, inputs_);
    }
    std::vector<Node*> operands;
    for (const Node* operand : node.operands()) operands.push_back(copy(*operand, copies));
    return copies[&node] = copy_into(*fused_, node, std::move(operands));
  }

  Computation& c_;
  const LoopGraph& g_;
  const LoopGroup& group_;
  Computation* fused_ = nullptr;
  std::vector<Node*> inputs_;
  std::vector<std::pair<Node*, Node*>> replacements_;
};

// A lone node stays as it is unless it would make a broadcast real.
bool worth_it(const LoopGraph& graph, const LoopGroup& group) {
  if (group.members.size() + group.clones.size() > 1) return true;
  const Node& node = *graph.nodes[static_cast<size_t>(*group.members.begin())];
  return std::any_of(node.operands().begin(), node.operands().end(), [&](const Node* operand) {
    return graph.absorbed[static_cast<size_t>(graph.position_of.at(operand))] &&
           operand->shape.elements_count() > 1;
  });
}

}  // namespace

namespace {

// With slices, concatenations and pads or without. `left`: whether some that would be in too many
// pieces are left.
bool fuse_loops(Computation& computation, bool views, bool& left) {
  const LoopGraph graph = loop_graph(computation, views);
  const std::vector<LoopGroup> groups = group_loops(graph);
  GroupsOf groups_of(graph.nodes.size());
  for (const LoopGroup& group : groups)
    for (const PositionSet* part : {&group.members, &group.clones})
      for (const int64_t n : *part) groups_of[static_cast<size_t>(n)].push_back(&group);
  std::vector<std::pair<FusionRewriter, std::vector<int64_t>>>
      rewriters;  // all read the graph before it changes
  for (const LoopGroup& group : groups) {
    if (!worth_it(graph, group)) continue;
    FusionRewriter rewriter(computation, graph, group);
    std::vector<int64_t> outputs = rewriter.outputs(groups_of);
    if (!outputs.empty()) rewriters.emplace_back(std::move(rewriter), std::move(outputs));
  }
  std::vector<std::pair<Node*, Node*>> replacements;
  for (auto& [rewriter, outputs] : rewriters) {
    if (!rewriter.rewrite(outputs)) {
      left = true;
      continue;
    }
    const auto& made = rewriter.replacements();
    replacements.insert(replacements.end(), made.begin(), made.end());
  }
  for (const auto& [from, to] : replacements) computation.replace_uses(from, to);
  if (replacements.empty()) return false;
  computation.remove_dead();
  computation.sort();
  return true;
}

}  // namespace

bool fuse_loops(Computation& computation) {
  bool changed = computation.remove_dead() > 0;  // dead readers would ask for results
  bool left = false;
  changed |= fuse_loops(computation, true, left);
  if (left) changed |= fuse_loops(computation, false, left);
  return changed;
}

}  // namespace gspmd
