#include "passes/update/update_regions.h"

#include <algorithm>
#include <map>

#include "gspmd/ir/op.h"

namespace gspmd {
namespace {

bool is_array(const Node& node) { return !node.shape.is_tuple && node.rank() > 0; }

bool is_by_element(const Node& node) {
  return is_array(node) && !node.operands().empty() && node.op().has(kElementwise);
}

bool is_number(const Node& node) {
  return node.op().has(kConstantLike) ||
         (node.is(Opcode::broadcast) && node.operand(0)->op().has(kConstantLike));
}

// Whether sums over devices may be done after it: it is linear, and the only reader of what it
// reads.
bool adds_up(const Node& node) {
  int64_t numbers = 0;
  for (const Node* operand : node.operands()) {
    if (is_number(*operand))
      ++numbers;
    else if (operand->users().size() > 1)
      return false;
  }
  return node.is(Opcode::convert) || node.op().has(kLinear) ||
         (node.op().has(kLinearInEach) && numbers > 0);
}

// Dims of an array summed, or combined, away.
bool is_reduction(const Node& node) {
  if (node.shape.is_tuple || node.operands().size() != 2 || node.called.size() != 1 ||
      node.op().factors == nullptr || !is_array(*node.operand(0)) || node.operand(1)->rank() != 0 ||
      node.rank() >= node.operand(0)->rank())
    return false;
  const FactorRule rule = node.op().factors(node);
  return rule.scalars_start &&
         std::any_of(rule.factors.begin(), rule.factors.end(),
                     [](const Factor& factor) { return factor.kind == FactorKind::reduction; });
}

class RegionSearch {
 public:
  RegionSearch(const Module& module, const std::vector<StatePair>& state)
      : entry_(*module.entry()), pairs_(state) {
    for (const StatePair& pair : pairs_)
      state_.insert(entry_.parameters().at(static_cast<size_t>(pair.parameter)));
    for (const auto& node : entry_.nodes()) {
      const bool reads = is_by_element(*node) &&
                         std::any_of(node->operands().begin(), node->operands().end(),
                                     [&](const Node* x) { return reads_state_.contains(x); });
      if (reads || state_.contains(node.get())) reads_state_.insert(node.get());
      const bool sums =
          is_by_element(*node) && adds_up(*node) &&
          std::all_of(node->operands().begin(), node->operands().end(), [&](const Node* x) {
            return !is_by_element(*x) || passes_sums_.contains(x);
          });
      if (sums) passes_sums_.insert(node.get());
    }
  }

  Updates run() {
    for (const StatePair& pair : pairs_) {
      Node* const next = entry_.root()->operand(pair.result);
      if (is_array(*next)) push(next);
    }
    while (!stack_.empty()) {
      Node* const node = stack_.back();
      stack_.pop_back();
      if (is_array(*node))
        visit(node);
      else
        visit_scalar(node);
    }
    return collect();
  }

 private:
  void push(Node* node) {
    if (!node->shape.is_tuple && seen_.insert(node).second) stack_.push_back(node);
  }

  // What comes from elsewhere: gradients up to where their sums over devices end.
  bool is_inner(const Node& node) const {
    return is_by_element(node) && (reads_state_.contains(&node) || !passes_sums_.contains(&node));
  }

  void visit(Node* node) {
    parent_.try_emplace(node, node);
    if (state_.contains(node)) return;
    if (!is_inner(*node)) {
      if (is_reduction(*node)) visit_sum(node);
      return;
    }
    inner_.insert(node);
    for (Node* operand : node->operands()) {
      if (!is_array(*operand)) {
        push(operand);
      } else if (operand->is(Opcode::broadcast)) {
        if (is_array(*operand->operand(0))) rows_.push_back(node);
        push(operand->operand(0));
      } else {
        push(operand);
        parent_.try_emplace(operand, operand);
        parent_[find(operand)] = find(node);
      }
    }
  }

  void visit_scalar(Node* node) {
    if (is_reduction(*node)) {
      visit_sum(node);
    } else if (node->op().has(kElementwise) || node->is(Opcode::reshape)) {
      for (Node* operand : node->operands()) push(operand);
    }
  }

  void visit_sum(Node* node) {
    sums_.insert(node);
    Node* const summed = node->operand(0);
    push(summed);
    parent_.try_emplace(summed, summed);
    if (node->rank() > 0) rows_.push_back(summed);
  }

  Node* find(Node* node) {
    while (parent_.at(node) != node) node = parent_[node] = parent_.at(parent_.at(node));
    return node;
  }

  Updates collect() {
    Updates updates;
    updates.sums = std::move(sums_);
    std::map<Node*, size_t> index;  // by representative
    for (const StatePair& pair : pairs_) {
      Node* const parameter = entry_.parameters().at(static_cast<size_t>(pair.parameter));
      Node* const next = entry_.root()->operand(pair.result);
      if (!parent_.contains(parameter) || !parent_.contains(next) || !inner_.contains(next))
        continue;
      Node* const representative = find(parameter);
      if (find(next) != representative) continue;
      const size_t at = index.try_emplace(representative, updates.regions.size()).first->second;
      if (at == updates.regions.size()) updates.regions.emplace_back();
      updates.regions[at].pairs.push_back(pair);
    }
    for (const auto& node : entry_.nodes()) {
      if (!parent_.contains(node.get())) continue;
      const auto found = index.find(find(node.get()));
      if (found == index.end()) continue;
      UpdateRegion& region = updates.regions[found->second];
      const bool state = state_.contains(node.get()), inner = inner_.contains(node.get());
      (state ? region.state : inner ? region.inner : region.entries).push_back(node.get());
      if (state || inner) updates.region_of.emplace(node.get(), found->second);
    }
    for (Node* node : rows_)
      if (const auto found = index.find(find(node)); found != index.end())
        updates.regions[found->second].has_rows = true;
    return updates;
  }

  const Computation& entry_;
  const std::vector<StatePair>& pairs_;
  std::unordered_set<const Node*> state_, reads_state_, passes_sums_, seen_, inner_, sums_;
  std::unordered_map<Node*, Node*> parent_;  // towards the representative
  std::vector<Node*> stack_, rows_;
};

}  // namespace

Updates find_updates(const Module& module, const std::vector<StatePair>& state) {
  return RegionSearch(module, state).run();
}

}  // namespace gspmd
