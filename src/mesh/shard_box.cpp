#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {
namespace {

Box empty_box(const Shape& global) { return {global.dims, Dims(global.dims.size(), 0), false}; }

}  // namespace

bool Box::is_empty() const {
  return !held || std::any_of(size.begin(), size.end(), [](int64_t n) { return n == 0; });
}

Box shard_box(const Shape& global, const Sharding& sharding, int64_t device) {
  if (sharding.is_tuple() || global.is_tuple || sharding.rank() > global.rank())
    internal_error("shard box: {} of {}", to_string(global), to_string(sharding));
  Box box{Dims(global.dims.size(), 0), global.dims};
  if (sharding.kind() == ShardingKind::maximal)
    return device == sharding.device() ? box : empty_box(global);
  if (!sharding.order()) return box;
  const int64_t rank = sharding.order()->rank(device);
  if (rank < 0) return empty_box(global);
  for (int64_t i = 0; i < sharding.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t dim = global.dims[k];
    const int64_t shard = ceil_div(dim, sharding.tiles(i));
    box.start[k] = std::min(dim, saturating_multiply(tile_index(sharding.dim(i), rank), shard));
    box.size[k] = std::min(shard, dim - box.start[k]);
  }
  return box;
}

}  // namespace gspmd
