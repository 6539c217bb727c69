#include "passes/improve_sharding.h"

namespace gspmd {
namespace {

bool is_one_device(const Sharding& s) { return s.kind() == ShardingKind::maximal; }

std::optional<Sharding> merged(const Shape& shape, const Sharding& existing, const Sharding& candidate) {
  const int64_t most = std::max(existing.num_tiles(), candidate.num_tiles());
  std::optional<Sharding> result = merge(existing, candidate, shape.rank());
  if (!result || result->num_tiles() <= most) return std::nullopt;
  return result;
}

}  // namespace

bool propagates(const Sharding& sharding) {
  return sharding.is_tiled() || sharding.is_manual();
}

bool more_specific(const Sharding& a, const Sharding& b) {
  if (a.is_manual() || b.is_manual()) return a.is_manual() && !b.is_manual();
  const bool b_splits = b.is_tiled() && !b.is_replicated();
  if (b_splits) return a.is_tiled() && a.num_tiles() > b.num_tiles();
  if (is_one_device(b)) return a.is_replicated();
  return a.is_tiled() && !a.is_replicated();
}

std::optional<Sharding> improve_sharding(const Shape& shape, const std::optional<Sharding>& existing,
                                         const Sharding& candidate, const ImproveOptions& options) {
  if (!propagates(candidate)) return std::nullopt;
  if (!existing) return candidate;
  if (candidate.is_manual() && (existing->is_replicated() || is_one_device(*existing)))
    return candidate;
  if (candidate.is_manual() || existing->is_manual()) return std::nullopt;
  const bool both_split = !existing->is_replicated() && existing->is_tiled() &&
                          !candidate.is_replicated();
  if (both_split && options.merge_partial)
    if (std::optional<Sharding> result = merged(shape, *existing, candidate)) return result;
  if (!more_specific(candidate, *existing)) return std::nullopt;
  if (both_split && !options.reshard_freely && !is_sub_tiling(candidate, *existing, shape))
    return std::nullopt;
  return candidate;
}

}  // namespace gspmd
