#include "passes/factor_sharding.h"

#include "gspmd/passes/propagate.h"

namespace gspmd {
namespace {

// The sharding of one leaf of a node, where it has one.
const Sharding* leaf_sharding(const Node& node, int64_t leaf) {
  if (!node.sharding) return nullptr;
  if (!node.sharding->is_tuple()) return &*node.sharding;
  const auto& elements = node.sharding->elements();
  return leaf < static_cast<int64_t>(elements.size()) ? &elements[static_cast<size_t>(leaf)] : nullptr;
}

bool carries(const FactorRule& rule, int64_t factor) {
  return factor >= 0 && rule.factors[static_cast<size_t>(factor)].kind != FactorKind::blocked;
}

// `from`'s sharding carried over the factors that both have.
Sharding carry(const FactorRule& rule, const std::vector<int64_t>& from_dims, const Sharding& from,
               const std::vector<int64_t>& to_dims) {
  if (from.is_replicated()) return Sharding::replicated();
  FactorDigits factors = factors_of(rule, from_dims, from);
  for (size_t f = 0; f < factors.size(); ++f)
    if (!carries(rule, static_cast<int64_t>(f))) factors[f].clear();
  return project(from.order(), to_dims, factors);
}

}  // namespace

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

std::optional<Sharding> result_from_operand(const Node& node, const FactorRule& rule, int64_t operand,
                                            int64_t leaf) {
  const Sharding* from = leaf_sharding(*node.operand(operand), 0);
  if (!from || !from->is_tiled()) return std::nullopt;
  return carry(rule, rule.operands[static_cast<size_t>(operand)], *from,
               rule.results[static_cast<size_t>(leaf)]);
}

std::optional<Sharding> operand_from_result(const Node& node, const FactorRule& rule, int64_t operand) {
  const Sharding* from = leaf_sharding(node, 0);
  if (!from || !from->is_tiled()) return std::nullopt;
  return carry(rule, rule.results[0], *from, rule.operands[static_cast<size_t>(operand)]);
}

}  // namespace gspmd
