// The loop nests of gather and scatter as factors, and completion by them.

#include "ops/common/completion.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/common/completion_rules.h"
#include "ops/gather_scatter/gather_scatter.h"
#include "ops/gather_scatter/nest.h"

namespace gspmd {
namespace {

// What one side says of another, nullopt where none of its dims reach there.
MaybeSharding reaching(const std::vector<int64_t>& from_dims, const Sharding& from,
                       const std::vector<int64_t>& to_dims) {
  Sharding s = carry_sharding(from_dims, from, to_dims);
  if (s.is_replicated()) return std::nullopt;
  return s;
}

bool is_laid_out(const Node& node) { return node.sharding && node.sharding->is_tiled(); }

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

// `by_position`: operand dims that are looked up position by position are dims of the indices.
FactorRule gather_rule(const IndexNest& nest, bool by_position) {
  IndexFactors made = index_factors(nest, by_position);
  return {std::move(made.factors), {made.operand, made.indices}, {made.slices}};
}

FactorRule scatter_rule(const Node& node, bool by_position) {
  const size_t inputs = node.operands().size() / 2;
  const std::optional<Combiner> combiner =
      inputs == 1 ? recognize_combiner(*node.called[0]) : std::nullopt;
  const Factor dealt{1, combiner ? FactorKind::reduction : FactorKind::blocked,
                     combiner.value_or(Combiner::sum)};
  IndexFactors made = index_factors(scatter_nest(node, true, by_position), by_position, dealt);
  FactorRule rule;
  rule.factors = std::move(made.factors);
  rule.operands.assign(inputs, made.operand);
  rule.results = rule.operands;
  rule.operands.push_back(made.indices);
  rule.operands.insert(rule.operands.end(), inputs, made.slices);
  return rule;
}

}  // namespace

FactorRule gather_factors(const Node& node) { return gather_rule(gather_nest(node, false), false); }

// The slices are a reduction: each part of them, scattered into the combiner's identity, is a
// partial result of the whole operand.
FactorRule scatter_factors(const Node& node) { return scatter_rule(node, false); }

// Dims that operand and indices share by name first, then the indices' batch dims, then what the
// operand has beside the dims that are looked up.
Proposals gather_forward(const Node& node, CompletionMode mode) {
  const IndexNest nest = gather_nest(node);
  const FactorRule rule = gather_rule(nest, mode.spmd);
  const std::vector<int64_t>& dims = rule.operands[0];
  const Sharding* operand = tiled_leaf(*node.operand(0));
  const Sharding* indices = tiled_leaf(*node.operand(1));
  Proposals proposals;
  const auto propose = [&](const std::vector<int64_t>& some) {
    if (std::all_of(some.begin(), some.end(), [](int64_t f) { return f < 0; })) return;
    if (const auto s = reaching(some, *operand, rule.results[0])) proposals.push_back({*s, 0});
  };
  if (operand) propose(dims_of(nest, IndexMethod::batching, IndexArray::operand, dims));
  if (indices)
    proposals.push_back({carry_sharding(rule.operands[1], *indices, rule.results[0]), 1});
  if (!mode.spmd || !operand) return proposals;
  // Each by itself, so that a conflict about one does not lose the other.
  const auto by_position = dims_of(nest, IndexMethod::parallel, IndexArray::operand, dims);
  propose(by_position);
  propose(the_rest(dims, by_position));
  return proposals;
}

Suggestions gather_suggestions(const Node& node, int64_t operand, CompletionMode mode) {
  if (!is_laid_out(node)) return {};
  const FactorRule rule = gather_rule(gather_nest(node), mode.spmd);
  const auto& to = rule.operands.at(static_cast<size_t>(operand));
  if (operand == 1) return only(carry_sharding(rule.results[0], *node.sharding, to));
  if (!mode.spmd) return {};
  if (node.sharding->is_replicated()) return only(node.sharding);
  return only(reaching(rule.results[0], *node.sharding, to));
}

Proposals scatter_forward(const Node& node, CompletionMode mode) {
  const size_t inputs = node.operands().size() / 2;
  Proposals proposals;
  if (!mode.spmd) return {{Sharding::replicated(), 0}};
  const auto leaf_of = [&](size_t i) { return node.shape.is_tuple ? static_cast<int64_t>(i) : -1; };
  for (size_t i = 0; i < inputs; ++i)
    if (is_laid_out(*node.operands()[i]))
      proposals.push_back({*node.operands()[i]->sharding, int64_t(i), leaf_of(i)});
  const FactorRule rule = scatter_rule(node, true);
  const auto propose = [&](size_t i, const std::vector<int64_t>& dims) {
    const Node& operand = *node.operands()[i];
    if (!is_laid_out(operand)) return;
    const auto s = reaching(dims, *operand.sharding, rule.results[0]);
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

// Where they disagree the first counts.
Suggestions agreed(Suggestions said, int64_t rank) {
  MaybeSharding common;
  for (const OperandSuggestion& one : said) {
    common = common ? merge(*common, one.sharding, rank) : one.sharding;
    if (common) continue;
    said.resize(1);
    break;
  }
  return said;
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
  const FactorRule rule = scatter_rule(reader, true);
  const auto& to = rule.operands.at(static_cast<size_t>(operand));
  std::vector<OperandSuggestion> said;
  if (operand == inputs) {
    for (int64_t u = inputs + 1; u < static_cast<int64_t>(reader.operands().size()); ++u)
      if (const Node& update = *reader.operand(u); is_laid_out(update))
        said.push_back({carry_sharding(rule.operands[size_t(u)], *update.sharding, to), u});
    return agreed(std::move(said), reader.operand(operand)->rank());
  }
  const int64_t number = operand - inputs - 1;
  if (const Sharding* output = mode.spmd ? leaf(number) : nullptr) {
    if (auto s = reaching(rule.results[0], *output, to)) said.push_back({*s, -1, number});
  }
  if (const Node& indices = *reader.operand(inputs); is_laid_out(indices))
    if (auto s = reaching(rule.operands[size_t(inputs)], *indices.sharding, to))
      said.push_back({*s, inputs});
  return agreed(std::move(said), reader.operand(operand)->rank());
}

}  // namespace gspmd
