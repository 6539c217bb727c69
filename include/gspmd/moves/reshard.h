#pragma once

// The cheapest way from one layout to another.

#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

struct PieceTransfer;  // moves/pieces.h

enum class ReshardKind : uint8_t {
  all_gather,          // dim `dim` loses `digits` (its minor-most ones)
  dynamic_slice,       // dim `dim` gains `digits` as minor-most, from replication: no communication
  all_to_all,          // `digits` (minor-most of `dim`) move to become minor-most of `dim_to`
  collective_permute,  // same tiles per dim, devices exchange whole shards
  all_reduce,          // unreduced `digits` become replicated
  reduce_scatter,      // unreduced `digits` become minor-most digits of `dim`
  piecewise_permutes,  // each device is sent what it lacks of its new shard, piece by piece
  collective_broadcast,  // holders of whole shards send them to devices that have none
};

// Digits that move from one dim to another.
struct MovedDigits {
  int64_t dim = -1;     // whose minor-most digits they are
  int64_t dim_to = -1;  // whose minor-most digits they become
  Digits digits = {};   // of the rank
  bool operator==(const MovedDigits&) const = default;
};

// One operation on the way.
struct ReshardStep {
  ReshardKind kind = ReshardKind::all_gather;  // which operation
  int64_t dim = -1;                            // the tensor dim concerned; -1: none
  int64_t dim_to = -1;                         // all_to_all
  Digits digits = {};                          // the part of the rank concerned
  // A value that is whole on some of the devices only is `{maximal}` on the first of them.
  Sharding before = {}, after = {};
  // Shards of an uneven dim are not parts of each other here: `dim` (or `dim_to`) is exchanged
  // between neighbours too, before it is split further or after it has been joined.
  bool realigned = false;
  // Of the last two kinds. A broadcast without them goes along `dim`, from the tile that has all of
  // it, or (-1) from a part of the devices to the others.
  std::shared_ptr<const PieceTransfer> pieces = nullptr;
  // all_to_all: what moves in the same step after `digits`; no dim both loses and gains digits.
  std::vector<MovedDigits> also = {};
};

// What a way costs.
struct ReshardCost {
  int64_t bytes = 0;  // sent by one device in all, docs/spec/command.md 4.5, of padded shards
  int64_t steps = 0;  // collectives and slices
  auto operator<=>(const ReshardCost&) const = default;
};

// The whole way.
struct ReshardPlan {
  std::vector<ReshardStep> steps;       // empty: already equal
  ReshardCost cost;                     // of all steps
  bool full_rematerialization = false;  // gathers to replicated, then slices, `to` being sharded
};

// The cheapest way (bytes, then steps) from one layout to another: Dijkstra over shardings made of
// the common atoms of both (docs/spec/partitioning.md 3.2). Uneven dims: where the shards of a
// finer split do not lie inside those of a coarser one, the step exchanges halos as well. Six, 10,
// 14 or 15 devices can be counted in two ways, and layouts of either are looked at. Works for any
// pair of tiled, replicated and maximal shardings, on any of the devices 0..num_devices-1;
// replicated means on all of them (0: as many as the shardings name). No steps: each device that is
// to have a part has just that already. `from` may be unreduced; the digits that `to` keeps
// unreduced stay. UserError when `to` is unreduced where `from` is not.
GSPMD_API ReshardPlan plan_reshard(const Shape& global, const Sharding& from, const Sharding& to,
                                   int64_t num_devices = 0);

// The order whose first ranks are those of `order` and that has all devices: digits over the one
// are digits over the other, with the tiles again on the other devices. nullptr where the number
// of devices is no multiple.
GSPMD_API DeviceOrder covering_order(DeviceOrder order, int64_t num_devices);

// "all-gather dim 1 (4,1); dynamic-slice dim 0 (2,4)".
GSPMD_API std::string to_string(const ReshardPlan& plan);

}  // namespace gspmd
