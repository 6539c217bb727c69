#include "ops/common/completion.h"

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "ops/gather_scatter/counting_indices.h"
#include "ops/gather_scatter/gather_scatter.h"

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

// Parallel dims that the rule treats as sums are shared by indices and updates whatever the
// combiner.
FactorRule with_sums(FactorRule rule) {
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::blocked) factor.kind = FactorKind::reduction;
  return rule;
}

// Where index component i is simply the position along a batch dim, that batch dim and the operand
// dim that is looked up are one loop (docs/spec/completion.md 6.5): `rule` is told so. Slices
// of one element only; `operands` are the rule's lists that are laid out as the operand.
void join_counted_dims(FactorRule& rule, const Node& operand, const Node& indices,
                       const SliceDims& dims, std::vector<int64_t>& in_indices,
                       const std::vector<std::vector<int64_t>*>& operands) {
  const std::vector<int64_t> counted =
      counting_components(indices, dims.index_vector_dim, dims.index_to_operand.size());
  for (size_t i = 0; i < counted.size(); ++i) {
    if (counted[i] < 0 || std::count(counted.begin(), counted.end(), counted[i]) > 1) continue;
    const int64_t d = dims.index_to_operand[i];
    const bool one_element = std::find(dims.window_operand.begin(), dims.window_operand.end(), d) ==
                             dims.window_operand.end();
    if (!one_element || operand.dim(d) != indices.dim(counted[i])) continue;
    const int64_t factor = in_indices.at(static_cast<size_t>(counted[i]));
    if (factor < 0) continue;
    const bool batches = std::any_of(operands.begin(), operands.end(), [&](const auto* list) {
      return std::count(list->begin(), list->end(), factor) > 0;  // another dim of the operand
    });
    if (batches) continue;
    rule.factors[static_cast<size_t>(factor)].kind = FactorKind::pass;
    for (std::vector<int64_t>* list : operands) list->at(static_cast<size_t>(d)) = factor;
  }
}

FactorRule gather_rule(const Node& node, bool spmd) {
  FactorRule rule = gather_factors(node);
  if (spmd)
    join_counted_dims(rule, *node.operand(0), *node.operand(1), gather_slice_dims(node),
                      rule.operands[1], {&rule.operands[0]});
  return rule;
}

FactorRule scatter_rule(const Node& node) {
  FactorRule rule = scatter_factors(node);
  const size_t inputs = node.operands().size() / 2;
  std::vector<std::vector<int64_t>*> operands;
  for (size_t i = 0; i < inputs; ++i) operands.push_back(&rule.operands[i]);
  for (std::vector<int64_t>& result : rule.results) operands.push_back(&result);
  join_counted_dims(rule, *node.operand(0), *node.operand(static_cast<int64_t>(inputs)),
                    scatter_slice_dims(node), rule.operands[inputs], operands);
  return rule;
}

// `dims` without the factors of other dims than those that `joined` has and `plain` does not: what
// is looked up position by position.
std::vector<int64_t> looked_up(const std::vector<int64_t>& joined,
                               const std::vector<int64_t>& plain) {
  std::vector<int64_t> dims = joined;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == plain[d]) dims[d] = -1;
  return dims;
}

// The factors of `dims` that `part` lacks.
std::vector<int64_t> the_rest(std::vector<int64_t> dims, const std::vector<int64_t>& part) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (part[d] >= 0) dims[d] = -1;
  return dims;
}

// The dims of `dims` whose factors `list` has.
std::vector<int64_t> shared_with(std::vector<int64_t> dims, const std::vector<int64_t>& list) {
  for (int64_t& factor : dims)
    if (std::count(list.begin(), list.end(), factor) == 0) factor = -1;
  return dims;
}

}  // namespace

// Dims that operand and indices share by name first, then the indices' batch dims, then what the
// operand has beside the dims that are looked up.
Proposals gather_forward(const Node& node, CompletionMode mode) {
  const FactorRule rule = gather_rule(node, mode.spmd);
  Proposals proposals;
  const Node& indices = *node.operand(1);
  const Dims& batching = node.attrs.gather->operand_batching_dims;
  if (const Sharding* s = tiled_leaf(*node.operand(0)); s && !batching.empty())
    if (auto batch = reaching(rule, rule.operands[0],
                              whole_except(*s, batching, node.operand(0)->rank()), rule.results[0]))
      proposals.push_back({*batch, 0});
  if (is_laid_out(indices))
    proposals.push_back(
        {carry_sharding(rule, rule.operands[1], *indices.sharding, rule.results[0]), 1});
  const Node& operand = *node.operand(0);
  if (!mode.spmd || !is_laid_out(operand)) return proposals;
  // Each by itself, so that a conflict about one does not lose the other.
  const std::vector<int64_t> by_position =
      looked_up(rule.operands[0], gather_factors(node).operands[0]);
  for (const auto& dims : {by_position, the_rest(rule.operands[0], by_position)})
    if (auto s = reaching(rule, dims, *operand.sharding, rule.results[0]))
      proposals.push_back({*s, 0});
  return proposals;
}

MaybeSharding gather_backward(const Node& node, int64_t operand, CompletionMode mode) {
  if (!is_laid_out(node)) return std::nullopt;
  const FactorRule rule = gather_rule(node, mode.spmd);
  const auto& to = rule.operands.at(static_cast<size_t>(operand));
  if (operand == 1) return carry_sharding(rule, rule.results[0], *node.sharding, to);
  if (!mode.spmd) return std::nullopt;
  if (node.sharding->is_replicated()) return node.sharding;
  return reaching(rule, rule.results[0], *node.sharding, to);
}

Proposals scatter_forward(const Node& node, CompletionMode mode) {
  const size_t inputs = node.operands().size() / 2;
  Proposals proposals;
  if (!mode.spmd) return {{Sharding::replicated(), 0}};
  const auto leaf_of = [&](size_t i) { return node.shape.is_tuple ? static_cast<int64_t>(i) : -1; };
  for (size_t i = 0; i < inputs; ++i)
    if (is_laid_out(*node.operands()[i]))
      proposals.push_back({*node.operands()[i]->sharding, int64_t(i), leaf_of(i)});
  const FactorRule rule = scatter_rule(node);
  const auto propose = [&](size_t i, const std::vector<int64_t>& dims) {
    const Node& operand = *node.operands()[i];
    if (!is_laid_out(operand)) return;
    const auto s = reaching(rule, dims, *operand.sharding, rule.results[0]);
    if (s) proposals.push_back({*s, int64_t(i), i == inputs ? -1 : leaf_of(i - inputs - 1)});
  };
  // What indices and updates share first, then the windows of the updates.
  const auto& indices = rule.operands[inputs];
  for (size_t i = inputs; i < node.operands().size(); ++i)
    propose(i, shared_with(rule.operands[i], indices));
  for (size_t i = inputs + 1; i < node.operands().size(); ++i)
    propose(i, the_rest(rule.operands[i], shared_with(rule.operands[i], indices)));
  return proposals;
}

// The operand is laid out as the result; indices follow the updates; updates follow both, the
// result first.
std::vector<OperandSuggestion> scatter_suggestions(const Node& reader, int64_t operand,
                                                   CompletionMode mode) {
  const auto inputs = static_cast<int64_t>(reader.operands().size()) / 2;
  const auto leaf = [&](int64_t i) { return tiled_leaf(reader, i); };
  if (operand < inputs) {
    const Sharding* s = leaf(operand);
    return s ? std::vector<OperandSuggestion>{{*s, -1, operand}} : std::vector<OperandSuggestion>{};
  }
  const FactorRule rule = with_sums(scatter_rule(reader));
  const auto& to = rule.operands.at(static_cast<size_t>(operand));
  std::vector<OperandSuggestion> said;
  if (operand == inputs) {
    for (int64_t u = inputs + 1; u < static_cast<int64_t>(reader.operands().size()); ++u)
      if (const Node& update = *reader.operand(u); is_laid_out(update))
        said.push_back({carry_sharding(rule, rule.operands[size_t(u)], *update.sharding, to), u});
    return said;
  }
  const int64_t number = operand - inputs - 1;
  if (const Sharding* output = mode.spmd ? leaf(number) : nullptr) {
    const FactorRule own = scatter_rule(reader);
    if (auto s = reaching(own, own.results[0], *output, own.operands[size_t(operand)]))
      said.push_back({*s, -1, number});
  }
  if (const Node& indices = *reader.operand(inputs); is_laid_out(indices))
    if (auto s = reaching(rule, rule.operands[size_t(inputs)], *indices.sharding, to))
      said.push_back({*s, inputs});
  return said;
}

MaybeSharding scatter_backward(const Node& node, int64_t operand, CompletionMode mode) {
  const auto inputs = static_cast<int64_t>(node.operands().size()) / 2;
  MaybeSharding common, first;
  const auto covers_all = [](const Sharding& s) {
    return s.order() && s.replicated_digits().empty();
  };
  for (const OperandSuggestion& said : scatter_suggestions(node, operand, mode)) {
    if (!common) {
      common = first = said.sharding;
      continue;
    }
    // What already uses every device has nothing in common with manual subgroups alone.
    if (operand > inputs && covers_all(*common)) break;
    common = merge(*common, said.sharding, node.operand(operand)->rank());
    if (!common) return first;  // where they disagree the first counts
  }
  return common;
}

}  // namespace gspmd
