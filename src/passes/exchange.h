#pragma once

#include "passes/halo.h"
#include "passes/spmd_partitioner.h"

namespace gspmd {

// A dim of a local value and the digits over which it is held, or, where every device has all of
// it, over which the result is to be.
struct ExchangedDim {
  int64_t dim = 0;
  DeviceOrder order = nullptr;
  Digits digits;
  HeldDim held;
  bool whole = false;
};

// How a dim is moved: not at all, by halos of neighbours, by transfers (halo.h), or by gathering
// it.
enum class ExchangeKind { nothing, neighbours, transfer, gather };
struct ExchangeChoice {
  ExchangeKind kind = ExchangeKind::nothing;
  int64_t received = 0;  // elements of the dim that one device is sent
  HaloPlan halo;
  TransferPlan transfer;
  int64_t collectives() const;
};
// The way that sends the fewest elements. `access` is addressable; `num_devices` hold the dim.
ExchangeChoice choose_exchange(const HeldDim& held, const Access& access, int64_t num_devices);

// What each device needs of one dim: the result has `access.length` elements there, element j being
// the global element first(tile) + j. Elements outside of the dim are `fill` (a scalar), or
// anything where that is null. By the way that sends the fewest bytes: halos of neighbours,
// transfers, or gathering the dim. `access` is addressable (halo.h).
Node* exchange(SpmdPartitioner& spmd, Node* x, const ExchangedDim& from, const Access& access,
               Node* fill);

// The dim turned round by `by` (0 <= by < size), its shards being full: position p of the result is
// position (p + by) modulo size. At most two permutes, of one shard together.
Node* rotate(SpmdPartitioner& spmd, Node* x, const ExchangedDim& from, int64_t by);

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
Node* exchange_joined(SpmdPartitioner& spmd, const std::vector<Node*>& shards, const Join& join,
                      const JoinPlan& plan);

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
Node* exchange_window(SpmdPartitioner& spmd, Node* x, const ExchangedDim& from,
                      const WindowAccess& window, Node* fill);

}  // namespace gspmd
