#pragma once

#include <optional>
#include <vector>

#include "gspmd/mesh/sharding.h"
#include "moves/halo.h"
#include "moves/stairs.h"

namespace gspmd {

// How a dim is moved: not at all, by halos of neighbours, by transfers (halo.h), whose
// pairs are listed or are those of stairs (stairs.h), or by gathering it.
enum class ExchangeKind { nothing, neighbours, transfer, stairs, gather };
struct ExchangeChoice {
  ExchangeKind kind = ExchangeKind::nothing;
  int64_t received = 0;  // elements of the dim that one device is sent
  HaloPlan halo;
  TransferPlan transfer;
  StairPlan stairs;
  int64_t collectives() const;
};
// The way that sends the fewest elements. `access` is addressable.
ExchangeChoice choose_exchange(const HeldDim& held, const Access& access);

// Parts of several values side by side along a dim: `shards` are those of plan_join's sources,
// which are held over `digits` as the result is to be.
struct Join {
  int64_t dim = 0;
  DeviceOrder order = nullptr;
  Digits digits;
  std::vector<HeldDim> sources;
  std::vector<JoinedPart> parts;
  HeldDim result;
};
// How all parts at once are moved where that sends no more than part by part, as `received` says,
// and takes fewer than so many collectives; nullopt: it does not.
std::optional<JoinPlan> choose_join(const Join& join, int64_t received, int64_t collectives);
// Parts of one value, each of which is to be split over the tiles that hold it: tile t is to have
// the parts of all of them in a row. How they are moved at once, by positions in the rows of all
// tiles; nullopt: that sends no less than one part after the other, nor in fewer collectives.
std::optional<JoinPlan> choose_split(const HeldDim& held, const std::vector<Interval>& parts,
                                     int64_t num_devices);
// A window over the dim after it has got `hole` - 1 fill elements between neighbours and `low` of
// them before the first (negative: cut): tile t needs `length` elements from t * step on, none of
// them at or after `end`.
struct WindowAccess {
  int64_t low = 0, hole = 1, step = 0, length = 0;
  int64_t end = int64_t(1) << 40;
};
// The elements of the dim that a window access needs.
Access undilated(const WindowAccess& window);
bool is_addressable(const HeldDim& dim, const WindowAccess& window);

}  // namespace gspmd
