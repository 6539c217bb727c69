#include "passes/complete/improve_sharding.h"

namespace gspmd {
namespace {

std::optional<Sharding> merged(const Shape& shape, const Sharding& existing,
                               const Sharding& candidate) {
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
