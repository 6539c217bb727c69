#include <algorithm>
#include <map>

#include "gspmd/ir/op.h"
#include "ops/common/loop_lowering.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

bool loop_typed(const Node& node) {
  return !node.shape.is_tuple && is_loop_dtype(node.shape.dtype);
}

bool is_absorbed(const Node& node) {
  if (!loop_typed(node) || node.shape.elements_count() == 0) return false;
  if (node.is(Opcode::constant)) return node.rank() == 0;
  return node.is(Opcode::iota) || (node.is(Opcode::broadcast) && loop_typed(*node.operand(0)));
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
  if (!loop_typed(node) || node.shape.elements_count() == 0 || !loop_op(node)) return false;
  for (const Node* operand : node.operands()) {
    if (!loop_typed(*operand)) return false;
  }
  if (node.op().has(kElementwise)) return true;
  return node.operand(0)->shape.elements_count() > 0 && !folded_dims(node).empty();
}

}  // namespace

LoopGraph loop_graph(const Computation& computation) {
  LoopGraph graph;
  FlatMap<const Node*, int64_t> position;
  for (const auto& owned : computation.nodes()) {
    Node* node = owned.get();
    position[node] = static_cast<int64_t>(graph.nodes.size());
    graph.nodes.push_back(node);
    graph.absorbed.push_back(is_absorbed(*node));
    graph.fusible.push_back(!graph.absorbed.back() && is_fusible(*node));
    const bool fusible = graph.fusible.back();
    graph.folded.push_back(fusible ? folded_dims(*node) : Dims{});
    graph.domain.push_back(!fusible                      ? Dims{}
                           : graph.folded.back().empty() ? node->dims()
                                                         : node->operand(0)->dims());
    std::vector<int64_t> reads;
    for (const Node* operand : node->operands()) {
      const int64_t at = position.at(operand);
      if (graph.absorbed[static_cast<size_t>(at)]) {
        const std::vector<int64_t>& through = graph.reads[static_cast<size_t>(at)];
        reads.insert(reads.end(), through.begin(), through.end());
      } else {
        reads.push_back(at);
      }
    }
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    graph.reads.push_back(std::move(reads));
  }
  return graph;
}

}  // namespace gspmd
