#include <algorithm>

#include "gspmd/ir/op.h"
#include "ops/common/loop_lowering.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

constexpr size_t kMostJoined = 8;          // operands of a concatenation that a loop goes through
constexpr int64_t kLeastSlice = 8;         // a view keeps so many times as much in memory at most
constexpr int64_t kMostAgainOfSlices = 8;  // additions for what several slices may read

bool loop_typed(const Node& node) {
  return !node.shape.is_tuple && is_loop_dtype(node.shape.dtype);
}
bool is_loop_value(const Node& node) { return loop_typed(node) && node.shape.elements_count() > 0; }

bool is_absorbed(const Node& node) {
  if (!is_loop_value(node)) return false;
  if (node.is(Opcode::constant)) return node.rank() == 0;
  return node.is(Opcode::iota) || (node.is(Opcode::broadcast) && loop_typed(*node.operand(0)));
}

// A concatenation or a pad whose pieces a loop can write.
bool is_join(const Node& node) {
  const bool joins = loop_view(node) == LoopView::join;
  if (!joins || !is_loop_value(node) || node.operands().size() > kMostJoined) return false;
  return std::all_of(node.operands().begin(), node.operands().end(),
                     [](const Node* operand) { return is_loop_value(*operand); });
}

bool is_slice(const Node& node) {
  if (loop_view(node) != LoopView::slice || !is_loop_value(node) || !loop_typed(*node.operand(0)))
    return false;
  const Node& x = *node.operand(0);
  return x.operands().empty() ||
         node.shape.elements_count() * kLeastSlice >= x.shape.elements_count();
}

bool is_unit_reshape(const Node& node) {
  return loop_view(node) == LoopView::unit_reshape && is_loop_value(node);
}

// The dims that a reduction combines, as its nest says.
Dims folded_dims(const Node& node) {
  Dims folded;
  if (node.op().has(kElementwise)) return folded;
  const FactorRule rule = node.op().factors(node);
  for (size_t d = 0; d < rule.operands[0].size(); ++d)
    if (rule.factors[static_cast<size_t>(rule.operands[0][d])].kind == FactorKind::reduction)
      folded.push_back(static_cast<int64_t>(d));
  return folded;
}

bool is_fusible(const Node& node) {
  if (!is_loop_value(node) || !loop_op(node)) return false;
  for (const Node* operand : node.operands()) {
    if (!loop_typed(*operand)) return false;
  }
  if (node.op().has(kElementwise)) return true;
  return node.operand(0)->shape.elements_count() > 0 && !folded_dims(node).empty();
}

void sort_unique(std::vector<int64_t>& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

class GraphBuilder {
 public:
  GraphBuilder(const Computation& computation, bool views) : graph_(computation), views_(views) {
    const size_t count = computation.nodes().size();
    graph_.nodes.reserve(count);
    for (const auto& owned : computation.nodes()) graph_.nodes.push_back(owned.get());
    graph_.domain.reserve(count);
    graph_.folded.reserve(count);
    graph_.reads.reserve(count);
    graph_.apart.reserve(count);
  }

  LoopGraph run() {
    for (const Node* node : graph_.nodes) classify(*node);
    if (views_) absorb_around_views();
    for (const Node* node : graph_.nodes) add_reads(*node);
    return std::move(graph_);
  }

 private:
  size_t at(const Node& node) const { return static_cast<size_t>(graph_.position_of.at(&node)); }

  void classify(const Node& node) {
    const bool join = views_ && is_join(node);
    const bool view = views_ && (is_slice(node) || is_view_of_slice(node));
    const bool absorbed = is_absorbed(node) || view;
    const bool fusible = join || (!absorbed && is_fusible(node));
    graph_.joins.push_back(join);
    graph_.absorbed.push_back(absorbed);
    views_of_.push_back(view);
    graph_.fusible.push_back(fusible);
    graph_.folded.push_back(fusible && !join ? folded_dims(node) : Dims{});
    graph_.domain.push_back(!fusible                       ? Dims{}
                            : graph_.folded.back().empty() ? node.dims()
                                                           : node.operand(0)->dims());
  }

  bool is_view_of_slice(const Node& node) const {
    return is_unit_reshape(node) && views_of_[at(*node.operand(0))];
  }

  // What only one concatenation or pad reads is computed where this is, and what only slices read,
  // or what slices and others read but has fewer bytes before, where they are.
  void absorb_around_views() {
    const size_t count = graph_.nodes.size();
    join_of_.assign(count, nullptr);
    only_loops_.assign(count, false);
    again_.assign(count, -1);
    for (size_t n = count; n-- > 0;) {
      const Node& node = *graph_.nodes[n];
      only_loops_[n] = !node.is_root() &&
                       std::all_of(node.users().begin(), node.users().end(), [&](const Node* user) {
                         const size_t u = at(*user);
                         return graph_.fusible[u] || (graph_.absorbed[u] && only_loops_[u]);
                       });
      if (!only_loops_[n] || graph_.absorbed[n] || node.users().empty()) continue;
      if (is_part(node) || is_cheap_for_slices(node) || has_fewer_bytes_before(node)) {
        graph_.fusible[n] = graph_.joins[n] = false;
        graph_.absorbed[n] = true;
      }
    }
  }

  bool is_computed(const Node& node) const {
    return graph_.fusible[at(node)] && node.op().has(kElementwise);
  }

  bool is_part(const Node& node) {
    if (!is_computed(node) && !is_unit_reshape(node) && !graph_.joins[at(node)]) return false;
    const Node* join = nullptr;
    for (const Node* user : node.users()) {
      const size_t u = at(*user);
      const Node* const of = graph_.joins[u] ? user : join_of_[u];
      if (of == nullptr || (join != nullptr && join != of)) return false;
      join = of;
    }
    join_of_[at(node)] = join;
    return true;
  }

  // What slices read of it is computed from no more memory.
  bool is_cheap_for_slices(const Node& node) {
    if (!is_computed(node)) return false;
    int64_t elements = 0, additions = 0, whole = 0;
    for (const Node* user : node.users()) {
      const size_t u = at(*user);
      const bool reads_slice = views_of_[u] && loop_view(*user) == LoopView::slice;
      if (!reads_slice && again_[u] < 0) return false;
      if (reads_slice) elements += user->shape.elements_count();
      additions = std::max(additions, again_[u]);
    }
    additions += node.op().additions;
    for (const Node* operand : node.operands())
      whole += operand->dims() == node.dims() && !graph_.absorbed[at(*operand)];
    if (elements > node.shape.elements_count() || additions > kMostAgainOfSlices || whole > 1)
      return false;
    again_[at(node)] = additions;
    return true;
  }

  // A conversion to a wider type: who reads a slice of it and all of it would need it in memory.
  bool has_fewer_bytes_before(const Node& node) const {
    if (!is_computed(node) || node.operands().size() != 1) return false;
    const Node& before = *node.operand(0);
    return before.shape.bytes() < node.shape.bytes() && !graph_.absorbed[at(before)] &&
           node.op().additions <= kMostAgainOfSlices &&
           std::any_of(node.users().begin(), node.users().end(),
                       [&](const Node* user) { return views_of_[at(*user)]; });
  }

  void add_reads(const Node& node) {
    const size_t n = at(node);
    std::vector<int64_t> reads, apart;
    for (const Node* operand : node.operands()) {
      const size_t from = at(*operand);
      if (graph_.absorbed[from]) {
        reads.insert(reads.end(), graph_.reads[from].begin(), graph_.reads[from].end());
        apart.insert(apart.end(), graph_.apart[from].begin(), graph_.apart[from].end());
      } else {
        reads.push_back(static_cast<int64_t>(from));
      }
    }
    sort_unique(reads);
    sort_unique(apart);
    if (graph_.joins[n] || views_of_[n]) apart = reads;
    graph_.reads.push_back(std::move(reads));
    graph_.apart.push_back(std::move(apart));
  }

  LoopGraph graph_;
  std::vector<bool> views_of_;        // slices, and reshapes of them
  std::vector<const Node*> join_of_;  // what a part is a part of
  std::vector<bool> only_loops_;      // nothing but loops reads it
  std::vector<int64_t> again_;        // what slices compute again, in additions; -1: nothing
  bool views_;
};

}  // namespace

LoopGraph loop_graph(const Computation& computation, bool views) {
  return GraphBuilder(computation, views).run();
}

}  // namespace gspmd
