#include "passes/partition/loops_apart.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "gspmd/moves/reshard.h"

namespace gspmd {

std::vector<LoopsApart> loops_apart(const FactorShardingProblem& problem) {
  const FactorRule& rule = *problem.rule;
  const size_t count = rule.factors.size();
  if (!problem.taken.empty() || rule.results.size() < 2 || !rule.windows.empty()) return {};
  std::vector<size_t> group(count);
  std::iota(group.begin(), group.end(), size_t(0));
  const auto passes = [&](int64_t f) {
    return f >= 0 && rule.factors[static_cast<size_t>(f)].kind == FactorKind::pass;
  };
  const auto first_pass = [&](const std::vector<int64_t>& dims) -> std::optional<size_t> {
    const auto found = std::find_if(dims.begin(), dims.end(), passes);
    return found == dims.end() ? std::nullopt : std::optional(static_cast<size_t>(*found));
  };
  for (const auto* sides : {&rule.operands, &rule.results})
    for (const std::vector<int64_t>& dims : *sides)
      for (const int64_t f : dims) {
        if (!passes(f)) continue;
        const size_t from = group[static_cast<size_t>(f)], to = group[*first_pass(dims)];
        std::replace(group.begin(), group.end(), from, to);
      }
  const auto first = first_pass(rule.results[0]);
  std::map<size_t, LoopsApart> apart;
  for (size_t f = 0; f < count; ++f)
    if (passes(static_cast<int64_t>(f)) && (!first || group[f] != group[*first]))
      apart[group[f]].factors.push_back(f);
  const auto add = [&](const std::vector<std::vector<int64_t>>& arrays,
                       std::vector<size_t> LoopsApart::*list) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto f = first_pass(arrays[i]);
      const auto found = f ? apart.find(group[*f]) : apart.end();
      if (found != apart.end()) (found->second.*list).push_back(i);
    }
  };
  add(rule.operands, &LoopsApart::operands);
  add(rule.results, &LoopsApart::results);
  std::vector<LoopsApart> result;
  for (auto& [g, loops] : apart) result.push_back(std::move(loops));
  return result;
}

void leave_out(const LoopsApart& loops, FactorShardingProblem& problem) {
  for (const size_t i : loops.operands) {
    problem.operands[i] = Sharding::replicated();
    problem.have[i] = problem.near[i] = FactorDigits(problem.rule->factors.size());
  }
}

FactorDigits spread_apart(SpmdPartitioner& spmd, const FactorShardingProblem& problem,
                          const LoopsApart& apart) {
  const Node& node = *problem.node;
  const FactorRule& rule = *problem.rule;
  const DeviceOrder order = problem.order;
  const Sharding completed = spmd.sharding(node);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  const auto wanted = [&](size_t leaf) {
    return completed.is_tuple() ? completed.elements().at(leaf) : completed;
  };
  std::vector<FactorDigits> candidates{FactorDigits(rule.factors.size())};
  const auto add = [&](const std::vector<int64_t>& dims, const Sharding& s) {
    if (!s.is_tiled() || s.order() != order) return;
    FactorDigits digits(rule.factors.size());
    for (size_t d = 0; d < dims.size(); ++d)
      if (std::count(apart.factors.begin(), apart.factors.end(), static_cast<size_t>(dims[d])))
        digits[static_cast<size_t>(dims[d])] = s.dim(static_cast<int64_t>(d));
    candidates.push_back(std::move(digits));
  };
  for (const size_t leaf : apart.results) add(rule.results[leaf], wanted(leaf));
  for (const size_t i : apart.operands)
    add(rule.operands[i], spmd.sharding(*node.operand(static_cast<int64_t>(i))));
  const auto cost = [&](const FactorDigits& digits) {
    int64_t bytes = 0;
    const auto move = [&](const Shape& shape, const Sharding& from, const Sharding& to) {
      bytes = saturating_add(bytes, plan_reshard(shape, from, to, spmd.num_devices()).cost.bytes);
    };
    for (const size_t i : apart.operands) {
      const Node& x = *node.operand(static_cast<int64_t>(i));
      move(x.shape, spmd.sharding(x), project(order, rule.operands[i], digits));
    }
    for (const size_t leaf : apart.results)
      move(shapes[leaf], project(order, rule.results[leaf], digits), wanted(leaf));
    return bytes;
  };
  // Of those that send as little the first that splits.
  const FactorDigits* best = nullptr;
  int64_t least = 0;
  for (size_t c = candidates.size(); c-- > 0;) {
    const int64_t bytes = cost(candidates[c]);
    if (best && (bytes > least || (bytes == least && c == 0))) continue;
    best = &candidates[c];
    least = bytes;
  }
  return *best;
}

}  // namespace gspmd
