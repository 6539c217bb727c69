#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"
#include "mesh/layout.h"

namespace gspmd {
namespace {

bool same_set(const Digits& a, const Digits& b) { return a == b || as_set(a) == as_set(b); }

bool equivalent_digits(const Sharding& a, const Sharding& b) {
  for (int64_t i = 0, rank = std::max(a.rank(), b.rank()); i < rank; ++i)
    if (a.dim(i) != b.dim(i)) return false;
  if (!same_set(a.manual_digits(), b.manual_digits())) return false;
  if (a.unreduced().size() != b.unreduced().size()) return false;
  for (size_t i = 0; i < a.unreduced().size(); ++i)
    if (a.unreduced()[i].combiner != b.unreduced()[i].combiner ||
        !same_set(a.unreduced()[i].digits, b.unreduced()[i].digits))
      return false;
  return true;
}

// As equivalent_by_device, by arithmetic; nullopt where that cannot say.
std::optional<bool> equivalent_by_steps(const Sharding& a, const Sharding& b) {
  const auto same = [&](const auto& function, const Digits& x,
                        const Digits& y) -> std::optional<bool> {
    const auto of_a = function(a.order(), x), of_b = function(b.order(), y);
    return of_a && of_b ? std::optional(*of_a == *of_b) : std::nullopt;
  };
  std::vector<std::optional<bool>> parts;
  for (int64_t i = 0; i < std::max(a.rank(), b.rank()); ++i)
    parts.push_back(same(tile_function, a.dim(i), b.dim(i)));
  parts.push_back(same(group_function, a.manual_digits(), b.manual_digits()));
  for (int c = 0; c <= static_cast<int>(Combiner::logical_or); ++c) {
    const auto combiner = static_cast<Combiner>(c);
    parts.push_back(
        same(group_function, unreduced_digits(a, combiner), unreduced_digits(b, combiner)));
  }
  bool known = true;
  for (const std::optional<bool>& part : parts) {
    if (part && !*part) return false;
    known = known && part;
  }
  return known ? std::optional(true) : std::nullopt;
}

bool equivalent_by_device(const Sharding& a, const Sharding& b) {
  const int64_t rank = std::max(a.rank(), b.rank());
  for (int64_t i = 0; i < rank; ++i)
    if (a.tiles(i) != b.tiles(i)) return false;
  const auto same_at = [&](int64_t rank_of_a) {
    const int64_t rank_of_b = b.order()->rank(a.order()->device(rank_of_a));
    if (rank_of_b < 0) return false;
    for (int64_t i = 0; i < rank; ++i)
      if (tile_index(a.dim(i), rank_of_a) != tile_index(b.dim(i), rank_of_b)) return false;
    return true;
  };
  const std::vector<int64_t> telling = telling_ranks(a, b);
  if (!std::all_of(telling.begin(), telling.end(), same_at)) return false;
  if (!same_devices(a.order(), b.order())) return false;
  if (const std::optional<bool> known = equivalent_by_steps(a, b)) return *known;
  for (int64_t r = 0; r < a.order()->count; ++r)
    if (!same_at(r)) return false;
  const std::vector<int64_t> devices = sorted_devices(a.order());
  if (!same_groups(devices, a.order(), a.manual_digits(), b.order(), b.manual_digits()))
    return false;
  for (int c = 0; c <= static_cast<int>(Combiner::logical_or); ++c) {
    const auto combiner = static_cast<Combiner>(c);
    if (!same_groups(devices, a.order(), unreduced_digits(a, combiner), b.order(),
                     unreduced_digits(b, combiner)))
      return false;
  }
  return true;
}

}  // namespace

bool equivalent(const Sharding& a, const Sharding& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_tuple())
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(),
                      b.elements().end(), equivalent);
  if (!a.is_tiled()) return a.device() == b.device();
  if (a.order() == b.order()) return equivalent_digits(a, b);
  if (!a.order() || !b.order()) return false;
  return equivalent_by_device(a, b);
}

namespace {

// Whether shard `i` of `fine` tiles lies inside shard `c` of `coarse` tiles of a dim; an empty
// shard lies inside any.
bool nests(int64_t dim, int64_t fine, int64_t i, int64_t coarse, int64_t c) {
  const int64_t fine_size = ceil_div(dim, fine);
  const int64_t coarse_size = ceil_div(dim, coarse);
  const int64_t start = saturating_multiply(i, fine_size);
  if (start >= dim) return true;
  const int64_t end = std::min(dim, start + fine_size);
  const int64_t coarse_start = saturating_multiply(c, coarse_size);
  return coarse_start <= start && end <= std::min(dim, coarse_start + coarse_size);
}

// Of one order: all ranks that differ in what either reads, the others 0. In no common atoms: all.
std::vector<int64_t> ranks_that_differ(const Digits& a, const Digits& b, int64_t count) {
  const std::optional<Digits> atoms = common_atoms(std::vector<Digits>{a, b});
  return ranks_in_order(atoms ? *atoms : Digits{{count, 1}});
}

bool dim_nests(int64_t dim, const Sharding& fine, const Sharding& coarse, int64_t i) {
  const int64_t fine_tiles = fine.tiles(i);
  const int64_t coarse_tiles = coarse.tiles(i);
  if (coarse_tiles == 1) return true;
  if (fine.order() == coarse.order()) {
    if (is_prefix(coarse.dim(i), fine.dim(i))) {
      // Shards nest where the coarse size is a whole number of fine ones. Otherwise it is smaller,
      // and the fine shard that ends the first coarse one reaches beyond it.
      const int64_t inner = fine_tiles / coarse_tiles;
      return dim <= 1 || ceil_div(dim, coarse_tiles) == ceil_div(dim, fine_tiles) * inner;
    }
    // Only dims smaller than their tiles can still nest; not worth a walk over a large mesh.
    if (dim >= fine_tiles && dim % fine_tiles == 0 && dim % coarse_tiles == 0) return false;
    if (fine.order() && fine.order()->count > int64_t{1} << 20) return false;
  }
  const DeviceOrder devices = fine.order() ? fine.order() : coarse.order();
  const bool one_order = devices == coarse.order();
  const auto nests_at = [&](int64_t r) {
    const int64_t coarse_rank = one_order ? r : coarse.order()->rank(devices->device(r));
    if (coarse_rank < 0) return false;
    const int64_t fine_index = fine.order() ? tile_index(fine.dim(i), r) : 0;
    return nests(dim, fine_tiles, fine_index, coarse_tiles, tile_index(coarse.dim(i), coarse_rank));
  };
  std::vector<int64_t> telling = telling_ranks(fine.dim(i));
  if (one_order)
    for (const int64_t r : telling_ranks(coarse.dim(i))) telling.push_back(r);
  if (!std::all_of(telling.begin(), telling.end(), nests_at)) return false;
  if (!one_order && fine_tiles == coarse_tiles && same_devices(fine.order(), coarse.order())) {
    const auto f = tile_function(fine.order(), fine.dim(i));
    if (f && f == tile_function(coarse.order(), coarse.dim(i))) return true;
  }
  const std::vector<int64_t> ranks = ranks_that_differ(
      fine.dim(i), one_order ? coarse.dim(i) : Digits{{devices->count, 1}}, devices->count);
  return std::all_of(ranks.begin(), ranks.end(), nests_at);
}

}  // namespace

bool is_sub_tiling(const Sharding& fine, const Sharding& coarse, const Shape& global) {
  if (fine.is_tuple() || coarse.is_tuple()) {
    const std::vector<Shape> leaves = leaf_shapes(global);
    if (fine.kind() != coarse.kind() || fine.elements().size() != leaves.size() ||
        coarse.elements().size() != leaves.size())
      return false;
    for (size_t i = 0; i < leaves.size(); ++i)
      if (!is_sub_tiling(fine.elements()[i], coarse.elements()[i], leaves[i])) return false;
    return true;
  }
  if (coarse.is_tiled() && coarse.num_tiles() == 1 &&
      (fine.is_tiled() || fine.kind() == ShardingKind::maximal))
    return true;
  if (!fine.is_tiled() || !coarse.is_tiled()) return equivalent(fine, coarse);
  if (std::max(fine.rank(), coarse.rank()) > global.rank()) return false;
  for (int64_t i = 0; i < global.rank(); ++i)
    if (!dim_nests(global.dims[static_cast<size_t>(i)], fine, coarse, i)) return false;
  return true;
}

}  // namespace gspmd
