#include "passes/factor_sharding.h"

#include "ops/completion.h"

namespace gspmd {

Sharding project(DeviceOrder order, const std::vector<int64_t>& dims, const FactorDigits& factors) {
  std::vector<Digits> digits(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0) digits[d] = factors[static_cast<size_t>(dims[d])];
  return order ? Sharding::tiled(order, std::move(digits)) : Sharding::replicated();
}

FactorDigits factors_of(const FactorRule& rule, const std::vector<int64_t>& dims,
                        const Sharding& sharding) {
  FactorDigits factors(rule.factors.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0) factors[static_cast<size_t>(dims[d])] = sharding.dim(static_cast<int64_t>(d));
  return factors;
}

std::optional<Sharding> result_from_operand(const Node& node, const FactorRule& rule,
                                            int64_t operand, int64_t leaf) {
  const Sharding* from = leaf_sharding(*node.operand(operand), 0);
  if (!from || !from->is_tiled()) return std::nullopt;
  return carry_sharding(rule, rule.operands[static_cast<size_t>(operand)], *from,
                        rule.results[static_cast<size_t>(leaf)]);
}

std::optional<Sharding> operand_from_result(const Node& node, const FactorRule& rule,
                                            int64_t operand) {
  const Sharding* from = leaf_sharding(node, 0);
  if (!from || !from->is_tiled()) return std::nullopt;
  return carry_sharding(rule, rule.results[0], *from, rule.operands[static_cast<size_t>(operand)]);
}

std::optional<Sharding> operand_from_operand(const Node& node, const FactorRule& rule,
                                             int64_t operand, int64_t other) {
  const Sharding* from = leaf_sharding(*node.operand(other), 0);
  if (!from || !from->is_tiled()) return std::nullopt;
  return carry_sharding(rule, rule.operands[static_cast<size_t>(other)], *from,
                        rule.operands[static_cast<size_t>(operand)]);
}

}  // namespace gspmd
