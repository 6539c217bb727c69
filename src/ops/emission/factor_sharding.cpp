#include "ops/emission/factor_sharding.h"

namespace gspmd {

Sharding project(DeviceOrder order, const std::vector<int64_t>& dims, const FactorDigits& factors) {
  std::vector<Digits> digits(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0) digits[d] = factors[static_cast<size_t>(dims[d])];
  return order ? Sharding::tiled(order, std::move(digits)) : Sharding::replicated();
}

Sharding with_unreduced(const Sharding& layout, DeviceOrder order,
                        const std::vector<Unreduced>& unreduced) {
  if (unreduced.empty()) return layout;
  return layout.is_replicated() ? Sharding::tiled(order, {}, {}, unreduced)
                                : layout.with_unreduced(unreduced);
}

FactorDigits factors_of(const FactorRule& rule, const std::vector<int64_t>& dims,
                        const Sharding& sharding) {
  FactorDigits factors(rule.factors.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0) factors[static_cast<size_t>(dims[d])] = sharding.dim(static_cast<int64_t>(d));
  return factors;
}

}  // namespace gspmd
