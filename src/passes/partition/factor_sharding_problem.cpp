#include "passes/partition/factor_sharding_problem.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "passes/partition/manual.h"
#include "passes/partition/shared_moves.h"

namespace gspmd {
namespace {

Sharding home(SpmdPartitioner& spmd, Node& node) {
  const Sharding& completed = spmd.sharding(node);
  if (!completed.is_tuple()) return completed;
  return completed.elements().empty() ? Sharding::replicated() : completed.elements()[0];
}

// `have`, and of operands in another order the digits that a permute of their shards gives them:
// those of an operand that cuts the loop into as many parts.
std::vector<FactorDigits> nearly_held(const FactorShardingProblem& p) {
  std::vector<FactorDigits> near = p.have;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const DeviceOrder order = p.operands[i].order();
    if (order == p.order || !order || order->count != p.order->count) continue;
    near[i] = factors_of(*p.rule, p.rule->operands[i], p.operands[i]);
    for (size_t f = 0; f < near[i].size(); ++f)
      for (const FactorDigits& held : p.have)
        if (!held[f].empty() && tile_count(held[f]) == tile_count(near[i][f])) near[i][f] = held[f];
  }
  return near;
}

// Whether there are initial values where every sum is spread.
bool starts_from_values(const FactorRule& rule, const Node& node) {
  FactorDigits spread(rule.factors.size());
  for (size_t f = 0; f < spread.size(); ++f)
    if (rule.factors[f].kind == FactorKind::reduction) spread[f] = {{2, 1}};
  return !initial_values(rule, spread, node).empty();
}

}  // namespace

bool is_uniform(const Node& node) {
  if (node.rank() == 0) return node.op().has(kConstantLike);
  return node.is(Opcode::broadcast) && is_uniform(*node.operand(0));
}

Digits manual_of(SpmdPartitioner& spmd, Node& node) {
  const Sharding result = home(spmd, node);
  return result.is_tiled() ? result.manual_digits() : Digits{};
}

std::vector<size_t> initial_values(const FactorRule& rule, const FactorDigits& spread,
                                   const Node& node) {
  std::vector<size_t> initial;
  if (!rule.scalars_start) return initial;
  for (size_t f = 0; f < spread.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::reduction || spread[f].empty()) continue;
    for (size_t i = 0; i < node.operands().size(); ++i) {
      const Node& operand = *node.operands()[i];
      if (operand.rank() != 0 || node.operand(0)->rank() == 0) continue;
      const DType dtype = operand.shape.dtype;
      const bool identity =
          operand.is(Opcode::constant) && !is_complex(dtype) &&
          operand.attrs.literal.at(0) == combiner_identity(rule.factors[f].combiner, dtype);
      if (!identity && !std::count(initial.begin(), initial.end(), i)) initial.push_back(i);
    }
  }
  return initial;
}

FactorShardingProblem factor_sharding_problem(SpmdPartitioner& spmd, Node& node,
                                              const FactorRule& rule, const Pending& kept,
                                              const WindowExchange* windows) {
  FactorShardingProblem p;
  p.one_of_few = spmd.factor_shardings().shared.has_few_sums(node.parent().module());
  p.node = &node;
  p.rule = &rule;
  p.num_devices = spmd.num_devices();
  p.result = home(spmd, node);
  p.order = kept.order ? kept.order : p.result.order();
  if (!p.result.is_tiled()) p.result = Sharding::replicated();
  p.taken = manual_of(spmd, node);
  p.result = without_manual(p.result);
  for (Node* operand : node.operands()) {
    Sharding s = kept.sums.empty() ? spmd.sharding(*operand) : spmd.held(operand).sharding;
    if (s.is_tiled() && !s.unreduced().empty()) s = s.with_unreduced({});
    if (s.is_tuple()) user_error("partition: {} reads a tuple {}", node.name(), operand->name());
    if (const auto as = windows ? windows->counted_as(p.operands.size()) : std::nullopt) s = *as;
    // Elementwise ops are done where the result is wanted with what every device has anyway.
    if (node.op().has(kElementwise) && !equivalent(s, p.result) && spmd.is_at_hand(*operand))
      s = Sharding::replicated();
    if (!p.order) p.order = s.order();
    p.operands.push_back(s.is_tiled() ? without_manual(s) : Sharding::replicated());
  }
  if (!p.order) p.order = iota_order(spmd.num_devices());
  for (size_t i = 0; i < p.operands.size(); ++i)
    p.have.push_back(p.operands[i].order() == p.order
                         ? factors_of(rule, rule.operands[i], p.operands[i])
                         : FactorDigits(rule.factors.size()));
  p.near = nearly_held(p);
  p.want = factors_of(rule, rule.results[0], p.result);
  for (const Unreduced& u : kept.sums) p.taken = concat(p.taken, u.digits);
  return p;
}

void add_prices(SpmdPartitioner& spmd, Node& node, const Pending& kept, FactorShardingProblem& p) {
  if (!has_sums(*p.rule)) return;
  p.joins_initial = starts_from_values(*p.rule, node);
  for (size_t i = 0; i < p.operands.size(); ++i) {
    Node* const operand = node.operands()[i];
    const Sharding held = spmd.held(operand).sharding;
    // A sum that waits for this reader is made on its way here.
    const bool waits = held.is_tiled() && !held.unreduced().empty() &&
                       operand->users().size() == 1 && held.manual_digits().empty();
    p.held.push_back(waits && kept.sums.empty() ? held : p.operands[i]);
    p.known.push_back(spmd.layouts_of(*operand));
    for (Sharding& layout : spmd.factor_shardings().shared.layouts(spmd, *operand, node))
      p.known.back().push_back(std::move(layout));
    p.sends_nothing.push_back(is_uniform(*operand) || operand->op().has(kConstantLike));
    p.repeats.push_back(spmd.factor_shardings().shared.runs_of_move(*operand));
  }
  if (const auto sum = spmd.factor_shardings().shared.sum_with_others(spmd, node))
    p.shared_sum = *sum;
}

}  // namespace gspmd
