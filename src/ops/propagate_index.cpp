#include "ops/completion.h"
#include "ops/index.h"
#include "ops/propagate_aspects.h"

namespace gspmd {
namespace {

// What one side says of another, nullopt where none of its dims reach there.
MaybeSharding reaching(const FactorRule& rule, const std::vector<int64_t>& from_dims,
                       const Sharding& from, const std::vector<int64_t>& to_dims) {
  Sharding s = carry_sharding(rule, from_dims, from, to_dims);
  if (s.is_replicated()) return std::nullopt;
  return s;
}

bool is_laid_out(const Node& node) { return node.sharding && node.sharding->is_tiled(); }

// Parallel dims that the rule treats as sums are shared by indices and updates whatever the combiner.
FactorRule with_sums(FactorRule rule) {
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::blocked) factor.kind = FactorKind::reduction;
  return rule;
}

}  // namespace

// The indices' batch dims first, then what the operand has beside the dims that are looked up.
Proposals gather_forward(const Node& node, CompletionMode mode) {
  if (mode.level < 1) return {};
  const FactorRule rule = gather_factors(node);
  Proposals proposals;
  const Node& indices = *node.operand(1);
  if (is_laid_out(indices))
    proposals.push_back({carry_sharding(rule, rule.operands[1], *indices.sharding, rule.results[0]), 1});
  const Node& operand = *node.operand(0);
  if (mode.spmd && is_laid_out(operand))
    if (auto s = reaching(rule, rule.operands[0], *operand.sharding, rule.results[0]))
      proposals.push_back({*s, 0});
  return proposals;
}

MaybeSharding gather_backward(const Node& node, int64_t operand, CompletionMode mode) {
  if (mode.level < 1 || !is_laid_out(node)) return std::nullopt;
  const FactorRule rule = gather_factors(node);
  const auto& to = rule.operands.at(static_cast<size_t>(operand));
  if (operand == 1) return carry_sharding(rule, rule.results[0], *node.sharding, to);
  if (!mode.spmd) return std::nullopt;
  if (node.sharding->is_replicated()) return node.sharding;
  return reaching(rule, rule.results[0], *node.sharding, to);
}

Proposals scatter_forward(const Node& node, CompletionMode mode) {
  if (mode.level < 1) return {};
  const size_t inputs = node.operands().size() / 2;
  Proposals proposals;
  if (!mode.spmd) {
    for (size_t i = 0; i < node.operands().size(); ++i)
      if (is_laid_out(*node.operands()[i])) return {{Sharding::replicated(), int64_t(i)}};
    return {};
  }
  const auto leaf_of = [&](size_t i) { return node.shape.is_tuple ? static_cast<int64_t>(i) : -1; };
  for (size_t i = 0; i < inputs; ++i)
    if (is_laid_out(*node.operands()[i]))
      proposals.push_back({*node.operands()[i]->sharding, int64_t(i), leaf_of(i)});
  const FactorRule rule = scatter_factors(node);
  for (size_t i = inputs; i < node.operands().size(); ++i) {
    const Node& operand = *node.operands()[i];
    if (!is_laid_out(operand)) continue;
    const auto s = reaching(rule, rule.operands[i], *operand.sharding, rule.results[0]);
    if (s) proposals.push_back({*s, int64_t(i), i == inputs ? -1 : leaf_of(i - inputs - 1)});
  }
  return proposals;
}

// The operand is laid out as the result; indices follow the updates; updates follow both.
MaybeSharding scatter_backward(const Node& node, int64_t operand, CompletionMode mode) {
  if (mode.level < 1) return std::nullopt;
  const auto inputs = static_cast<int64_t>(node.operands().size()) / 2;
  const auto leaf = [&](int64_t i) -> const Sharding* {
    const Sharding* s = leaf_sharding(node, i);
    return s && s->is_tiled() ? s : nullptr;
  };
  if (operand < inputs) {
    const Sharding* s = leaf(operand);
    return s ? MaybeSharding(*s) : std::nullopt;
  }
  const FactorRule rule = with_sums(scatter_factors(node));
  const auto& to = rule.operands.at(static_cast<size_t>(operand));
  const auto rank = static_cast<int64_t>(to.size());
  if (operand == inputs) {
    MaybeSharding common;
    for (int64_t u = inputs + 1; u < static_cast<int64_t>(node.operands().size()); ++u) {
      const Node& update = *node.operand(u);
      if (!is_laid_out(update)) continue;
      const Sharding s = carry_sharding(rule, rule.operands[size_t(u)], *update.sharding, to);
      if (common) common = merge(*common, s, rank);
      else common = s;
      if (!common) return Sharding::replicated();
    }
    return common;
  }
  MaybeSharding result;
  const Node& indices = *node.operand(inputs);
  if (is_laid_out(indices))
    result = carry_sharding(rule, rule.operands[size_t(inputs)], *indices.sharding, to);
  if (!mode.spmd) return result;
  const Sharding* output = leaf(operand - inputs - 1);
  if (!output) return result;
  const FactorRule own = scatter_factors(node);
  const MaybeSharding from_output =
      reaching(own, own.results[0], *output, own.operands[size_t(operand)]);
  if (!from_output) return result;
  if (!result) return from_output;
  const MaybeSharding both = merge(*result, *from_output, rank);
  return both && both->num_tiles() > result->num_tiles() ? both : result;
}

}  // namespace gspmd
