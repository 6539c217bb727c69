#include "moves/some_devices.h"

#include <algorithm>

#include "gspmd/moves/reshard.h"

namespace gspmd {
namespace {

// Of what is left of the devices, the smallest part that makes `tiles` or more tiles, else all.
int64_t part_for(int64_t tiles, int64_t left) {
  for (int64_t part = tiles; part < left; ++part)
    if (left % part == 0) return part;
  return left;
}

}  // namespace

bool is_partial(const Sharding& s, int64_t num_devices) {
  if (s.is_tuple())
    return std::any_of(s.elements().begin(), s.elements().end(),
                       [&](const Sharding& leaf) { return is_partial(leaf, num_devices); });
  if (s.kind() == ShardingKind::maximal) return num_devices > 1;
  return s.is_tiled() && s.order() && s.order()->count < num_devices;
}

Sharding on_all_devices(const Sharding& s, int64_t num_devices) {
  if (s.is_tuple()) {
    std::vector<Sharding> leaves;
    for (const Sharding& leaf : s.elements()) leaves.push_back(on_all_devices(leaf, num_devices));
    return Sharding::tuple(std::move(leaves));
  }
  if (!is_partial(s, num_devices)) return s;
  if (!s.is_tiled() || !s.manual_digits().empty()) return Sharding::replicated();
  std::vector<Digits> dims;
  if (const DeviceOrder all = covering_order(s.order(), num_devices)) {
    for (int64_t d = 0; d < s.rank(); ++d) dims.push_back(s.dim(d));
    return Sharding::tiled(all, std::move(dims));
  }
  int64_t left = num_devices;
  for (int64_t d = 0; d < s.rank(); ++d) {
    const int64_t part = s.tiles(d) == 1 ? 1 : part_for(s.tiles(d), left);
    left /= part;
    dims.push_back(canonical({{part, left}}));
  }
  return Sharding::tiled(iota_order(num_devices), std::move(dims));
}

}  // namespace gspmd
