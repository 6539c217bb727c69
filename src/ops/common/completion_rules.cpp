#include "ops/common/completion_rules.h"

#include <algorithm>

#include "ops/common/completion.h"

namespace gspmd {
namespace {

// A scalar beside arrays can only say that all is whole.
bool has_a_say(const Node& operand, const Sharding& s, const Node& result) {
  return operand.rank() == result.rank() || s.is_replicated();
}

int64_t speakers_of(const Node& node, Speakers speakers) {
  switch (speakers) {
    case Speakers::none:
      return 0;
    case Speakers::first:
      return 1;
    case Speakers::first_two:
      return 2;
    case Speakers::inputs:
      return pairs_of(node);
    case Speakers::all:
      break;
  }
  return static_cast<int64_t>(node.operands().size());
}

}  // namespace

Proposals nest_forward(const Node& node, CompletionMode mode, FactorRule nest) {
  const CompletionRules& rules = node.op().completion;
  const int64_t speakers = speakers_of(node, rules.speakers);
  Proposals proposals;
  for (int64_t i = 0; i < speakers && mode.level >= rules.forward_level; ++i) {
    const Sharding* s = tiled_leaf(*node.operand(i));
    if (!s) continue;
    if (nest.results.empty()) nest = completion_nest(node, mode);
    const auto& from = nest.operands.at(static_cast<size_t>(i));
    proposals.push_back({carry_sharding(from, *s, nest.results.at(0)), i});
  }
  return proposals;
}

Suggestions nest_suggestions(const Node& reader, int64_t operand, CompletionMode mode,
                             FactorRule nest) {
  const CompletionRules& rules = reader.op().completion;
  const int64_t speakers = speakers_of(reader, rules.speakers);
  if (operand >= speakers || mode.level < rules.backward_level) return {};
  const int64_t leaf = std::min(operand, leaf_count(reader.shape) - 1);
  const Sharding* result = tiled_leaf(reader, leaf);
  if (!result) return {};
  if (nest.results.empty()) nest = completion_nest(reader, mode);
  const auto& to = nest.operands.at(static_cast<size_t>(operand));
  if (rules.operands_confer && to.empty()) return {};
  Suggestions said;
  said.push_back(
      {carry_sharding(nest.results.at(static_cast<size_t>(leaf)), *result, to), -1, leaf});
  for (int64_t i = 0; i < speakers && rules.operands_confer; ++i) {
    const auto& from = nest.operands.at(static_cast<size_t>(i));
    const bool is_itself = reader.operand(i) == reader.operand(operand) && from == to;
    const Sharding* s = i == operand || is_itself ? nullptr : tiled_leaf(*reader.operand(i));
    if (s) said.push_back({carry_sharding(from, *s, to), i});
  }
  return said;
}

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

Suggestions same_dims_suggestions(const Node& reader, int64_t operand, CompletionMode) {
  if (!same_dims(reader.operand(operand)->shape, reader.shape)) return {};
  return only(reader.sharding);
}

Suggestions same_number_suggestions(const Node& reader, int64_t operand, CompletionMode) {
  const Sharding* s = operand < leaf_count(reader.shape) ? tiled_leaf(reader, operand) : nullptr;
  return s ? Suggestions{{*s, -1, operand}} : Suggestions{};
}

Proposals same_forward(const Node& node, CompletionMode) {
  const MaybeSharding& s = node.operand(0)->sharding;
  return s ? Proposals{{*s, 0}} : Proposals{};
}

Suggestions same_suggestions(const Node& reader, int64_t, CompletionMode) {
  return only(reader.sharding);
}

bool never_tiled(const Node&, bool) { return false; }
bool in_spmd_only(const Node&, bool spmd) { return spmd; }
bool pointwise_may_be_tiled(const Node& node, bool) { return is_pointwise(node); }

int64_t pairs_of(const Node& node) { return static_cast<int64_t>(node.operands().size()) / 2; }

Suggestions only(MaybeSharding sharding) {
  Suggestions said;
  if (sharding) said.push_back({*std::move(sharding)});
  return said;
}

Dims kept_dims(const Node& node, const Dims& removed) {
  Dims kept;
  for (int64_t d = 0; d < node.rank(); ++d)
    if (std::find(removed.begin(), removed.end(), d) == removed.end()) kept.push_back(d);
  return kept;
}

FactorRule completion_nest(const Node& node, CompletionMode mode) {
  const OpInfo& op = node.op();
  return op.completion.nest ? op.completion.nest(node, mode) : op.factors(node);
}

std::vector<ShardingProposal> proposals_of_operands(const Node& node, CompletionMode mode) {
  const auto rule = node.op().completion.forward;
  return rule ? rule(node, mode) : nest_forward(node, mode);
}

std::vector<OperandSuggestion> suggestions_of_reader(const Node& reader, int64_t operand,
                                                     CompletionMode mode) {
  if (!reader.sharding) return {};
  const auto rule = reader.op().completion.suggestions;
  return rule ? rule(reader, operand, mode) : nest_suggestions(reader, operand, mode);
}

}  // namespace gspmd
