#include "ops/common/completion_rules.h"

#include <algorithm>

#include "ops/common/completion.h"

namespace gspmd {
namespace {

// A scalar beside arrays can only say that all is whole.
bool has_a_say(const Node& operand, const Sharding& s, const Node& result) {
  return operand.rank() == result.rank() || s.is_replicated();
}

}  // namespace

Proposals representative_forward(const Node& node, CompletionMode) {
  const Node* operand = representative_operand(node);
  if (!operand || !operand->sharding || operand->sharding->is_tuple()) return {};
  int64_t at = 0;
  while (node.operand(at) != operand) ++at;
  return {{*operand->sharding, at}};
}

// Partial shardings of several operands merge where that is allowed; else the most specific one
// decides, or the first where it leads.
Proposals pointwise_forward(const Node& node, CompletionMode mode) {
  if (node.shape.is_tuple) return node.is(Opcode::copy) ? same_forward(node, mode) : Proposals{};
  if (!mode.spmd || mode.level == 0) {
    const Node* operand = representative_operand(node);
    if (!operand || !has_a_say(*operand, *operand->sharding, node)) return {};
    return representative_forward(node, mode);
  }
  Proposals proposals;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const Node& operand = *node.operands()[i];
    const Sharding* s = tiled_leaf(operand);
    if (s && has_a_say(operand, *s, node)) proposals.push_back({*s, static_cast<int64_t>(i)});
  }
  return proposals;
}

MaybeSharding same_dims_backward(const Node& node, int64_t operand, CompletionMode) {
  if (!same_dims(node.operand(operand)->shape, node.shape)) return std::nullopt;
  return node.sharding;
}

MaybeSharding first_operand_backward(const Node& node, int64_t operand, CompletionMode) {
  const Sharding* s = tiled_leaf(node);
  return s && operand == 0 ? MaybeSharding(*s) : std::nullopt;
}

MaybeSharding same_number_backward(const Node& node, int64_t operand, CompletionMode) {
  const Sharding* s = tiled_leaf(node, operand);
  return s && operand < leaf_count(node.shape) ? MaybeSharding(*s) : std::nullopt;
}

std::vector<OperandSuggestion> same_number_suggestions(const Node& reader, int64_t operand,
                                                       CompletionMode mode) {
  MaybeSharding s = reader.op().completion.backward(reader, operand, mode);
  if (!s) return {};
  return {{std::move(*s), -1, operand}};
}

Proposals same_forward(const Node& node, CompletionMode) {
  const MaybeSharding& s = node.operand(0)->sharding;
  return s ? Proposals{{*s, 0}} : Proposals{};
}

MaybeSharding same_backward(const Node& node, int64_t, CompletionMode) { return node.sharding; }

Proposals nothing_forward(const Node&, CompletionMode) { return {}; }
MaybeSharding nothing_backward(const Node&, int64_t, CompletionMode) { return std::nullopt; }

bool never_tiled(const Node&, bool) { return false; }
bool in_spmd_only(const Node&, bool spmd) { return spmd; }
bool pointwise_may_be_tiled(const Node& node, bool) { return is_pointwise(node); }

Proposals for_every_result(const Node& node, int64_t count,
                           const std::function<MaybeSharding(const Node&, const Sharding&)>& rule) {
  Proposals proposals;
  for (int64_t i = 0; i < count; ++i) {
    const Node& operand = *node.operand(i);
    const Sharding* s = tiled_leaf(operand);
    if (!s) continue;
    if (MaybeSharding proposal = rule(operand, *s)) proposals.push_back({*proposal, i});
  }
  return proposals;
}

int64_t pairs_of(const Node& node) { return static_cast<int64_t>(node.operands().size()) / 2; }

Dims kept_dims(const Node& node, const Dims& removed) {
  Dims kept;
  for (int64_t d = 0; d < node.rank(); ++d)
    if (std::find(removed.begin(), removed.end(), d) == removed.end()) kept.push_back(d);
  return kept;
}

std::vector<OperandSuggestion> suggestions_of_reader(const Node& reader, int64_t operand,
                                                     CompletionMode mode) {
  const CompletionRules& rules = reader.op().completion;
  if (!reader.sharding) return {};
  if (rules.suggestions) return rules.suggestions(reader, operand, mode);
  if (!rules.backward) return {};
  MaybeSharding s = rules.backward(reader, operand, mode);
  if (!s) return {};
  return {{std::move(*s)}};
}

}  // namespace gspmd
