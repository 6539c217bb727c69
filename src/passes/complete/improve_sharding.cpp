#include "passes/complete/improve_sharding.h"

namespace gspmd {
namespace {

// Whether each dim of `coarse` is whole or that of `fine`, over the same devices: a merge of both
// has the tiles of `fine`.
bool adds_nothing(const Sharding& coarse, const Sharding& fine, int64_t rank) {
  if (coarse.order() != fine.order() || !coarse.manual_digits().empty() ||
      !fine.manual_digits().empty() || !coarse.unreduced().empty() || !fine.unreduced().empty())
    return false;
  for (int64_t d = 0; d < rank; ++d)
    if (!coarse.dim(d).empty() && coarse.dim(d) != fine.dim(d)) return false;
  return true;
}

std::optional<Sharding> merged(const Shape& shape, const Sharding& existing,
                               const Sharding& candidate) {
  if (adds_nothing(candidate, existing, shape.rank()) ||
      adds_nothing(existing, candidate, shape.rank()))
    return std::nullopt;
  const int64_t most = std::max(existing.num_tiles(), candidate.num_tiles());
  const bool named = existing.mesh() && candidate.mesh();
  std::optional<Sharding> result = named ? merge_by_prefix(existing, candidate, shape.rank())
                                         : merge(existing, candidate, shape.rank());
  if (!result || result->num_tiles() <= most) return std::nullopt;
  return result;
}

}  // namespace

std::optional<Sharding> improve_sharding(const Shape& shape,
                                         const std::optional<Sharding>& existing,
                                         const Sharding& candidate, const ImproveOptions& options) {
  if (!propagates(candidate)) return std::nullopt;
  if (!existing) return candidate;
  if (candidate.is_manual() || existing->is_manual())
    return more_specific(candidate, *existing) && !(existing->is_tiled() && existing->order())
               ? std::optional(candidate)
               : std::nullopt;
  const bool both_split = existing->is_tiled() && existing->order() && candidate.order();
  if (both_split && options.merge_partial)
    if (std::optional<Sharding> result = merged(shape, *existing, candidate)) return result;
  if (!more_specific(candidate, *existing)) return std::nullopt;
  if (both_split && !options.reshard_freely && !is_sub_tiling(candidate, *existing, shape))
    return std::nullopt;
  return candidate;
}

}  // namespace gspmd
