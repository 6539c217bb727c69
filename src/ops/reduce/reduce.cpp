#include "ops/reduce/reduce.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/common/completion.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/reduce/form.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

// Operands: n inputs of equal dims, then n scalar initial values.
Shape infer_reduce(const Node& node) {
  const Shape& first = array_operand(node, 0);
  check_dim_list(node, "dimensions", node.attrs.dimensions, first.rank());
  Dims kept;
  for (int64_t d = 0; d < first.rank(); ++d)
    if (!contains(node.attrs.dimensions, d)) kept.push_back(first.dims[static_cast<size_t>(d)]);
  return arrays_of(check_inputs_and_starts(node), kept);
}

FactorRule reduce_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const size_t inputs = node.operands().size() / 2;
  const std::optional<Combiner> combiner =
      inputs == 1 ? recognize_combiner(*node.called[0]) : std::nullopt;
  size_t out = 0;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    const bool reduced = contains(node.attrs.dimensions, d);
    const FactorKind kind = !reduced   ? FactorKind::pass
                            : combiner ? FactorKind::reduction
                                       : FactorKind::blocked;
    const int64_t factor =
        add_factor(rule, node.operand(0)->dim(d), kind, combiner.value_or(Combiner::sum));
    for (size_t i = 0; i < inputs; ++i) rule.operands[i][static_cast<size_t>(d)] = factor;
    if (reduced) continue;
    for (std::vector<int64_t>& result : rule.results) result[out] = factor;
    ++out;
  }
  return rule;
}

// Summing over devices needs SPMD: without it all becomes whole.
Proposals reduce_forward(const Node& node, CompletionMode mode) {
  Proposals proposals = nest_forward(node, mode);
  for (ShardingProposal& p : proposals) {
    const Sharding& input = *node.operand(p.operand)->sharding;
    const auto is_split = [&](int64_t d) { return input.tiles(d) > 1; };
    const Dims& reduced = node.attrs.dimensions;
    if (!mode.spmd && std::any_of(reduced.begin(), reduced.end(), is_split))
      p.sharding = whole_except(p.sharding, {}, p.sharding.rank());
  }
  return proposals;
}

int64_t reduce_flops(const Node& node) {
  return saturating_multiply(static_cast<int64_t>(node.operands().size()) / 2,
                             node.operand(0)->shape.elements_count());
}

const OpInfo kReduceRows[] = {
    {.opcode = Opcode::reduce,
     .traits = kIntegerPreserving | kMadeAsOne,
     .operands = {2, -1},
     .infer = infer_reduce,
     .factors = reduce_factors,
     .evaluate = evaluate_reduce,
     .gradient = reduce_gradient,
     .differentiable_form = reduce_form,
     .completion = {.forward = reduce_forward,
                    .speakers = Speakers::inputs,
                    .operands_confer = true},
     .partition = partition_variadic_reduce,
     .lower = lower_reduce,
     .flops = reduce_flops},
};

}  // namespace

std::span<const OpInfo> reduce_rows() { return kReduceRows; }

}  // namespace gspmd
