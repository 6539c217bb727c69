#include "ops/completion.h"

namespace gspmd {

Sharding carry_sharding(const FactorRule& rule, const std::vector<int64_t>& from_dims,
                        const Sharding& from, const std::vector<int64_t>& to_dims) {
  if (!from.order()) return Sharding::replicated();
  std::vector<Digits> factors(rule.factors.size());
  for (size_t d = 0; d < from_dims.size(); ++d)
    if (from_dims[d] >= 0) {
      const auto f = static_cast<size_t>(from_dims[d]);
      if (rule.factors[f].kind != FactorKind::blocked)
        factors[f] = from.dim(static_cast<int64_t>(d));
    }
  std::vector<Digits> dims(to_dims.size());
  for (size_t d = 0; d < to_dims.size(); ++d)
    if (to_dims[d] >= 0) dims[d] = factors[static_cast<size_t>(to_dims[d])];
  return Sharding::tiled(from.order(), std::move(dims), from.manual_digits())
      .with_mesh(from.mesh());
}

bool more_specific(const Sharding& a, const Sharding& b) {
  if (a.is_manual() || b.is_manual()) return a.is_manual() && !b.is_manual();
  const bool a_splits = a.is_tiled() && !a.is_replicated();
  if (b.is_tiled() && !b.is_replicated()) return a_splits && a.num_tiles() > b.num_tiles();
  return a_splits;
}

bool propagates(const Sharding& sharding) {
  if (sharding.is_tuple())
    return std::any_of(sharding.elements().begin(), sharding.elements().end(),
                       [](const Sharding& element) { return propagates(element); });
  return sharding.is_tiled() || sharding.is_manual();
}

bool propagates(const std::optional<Sharding>& sharding) {
  return sharding && propagates(*sharding);
}

const Sharding* leaf_sharding(const Node& node, int64_t leaf) {
  if (!node.sharding) return nullptr;
  if (!node.sharding->is_tuple()) return &*node.sharding;
  const auto& elements = node.sharding->elements();
  return leaf < static_cast<int64_t>(elements.size()) ? &elements[static_cast<size_t>(leaf)]
                                                      : nullptr;
}

}  // namespace gspmd
