#pragma once

#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

enum class ReshardKind : uint8_t {
  all_gather,          // dim `dim` loses `digits` (its minor-most ones)
  dynamic_slice,       // dim `dim` gains `digits` as minor-most, from replication: no communication
  all_to_all,          // `digits` (minor-most of `dim`) move to become minor-most of `dim_to`
  collective_permute,  // same tiles per dim, devices exchange whole shards
  all_reduce,          // unreduced `digits` become replicated
  reduce_scatter,      // unreduced `digits` become minor-most digits of `dim`
};

struct ReshardStep {
  ReshardKind kind = ReshardKind::all_gather;
  int64_t dim = -1;
  int64_t dim_to = -1;  // all_to_all
  Digits digits;
  Sharding before, after;
};

struct ReshardCost {
  int64_t bytes = 0;  // sent by one device in all, cli.md's formulas on padded shards
  int64_t steps = 0;
  auto operator<=>(const ReshardCost&) const = default;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;  // empty: already equal
  ReshardCost cost;
  bool full_rematerialization = false;  // gathers to replicated, then slices, `to` being sharded
};

// The cheapest way (bytes, then steps) from one layout to another: Dijkstra over shardings made of
// the common atoms of both (design.md 2.5). Uneven dims: refining or coarsening a dim is a step
// only where the shard boundaries nest, else through the whole dim. Works for any pair of tiled
// shardings. `from` may be unreduced; the digits that `to` keeps unreduced stay. UserError when
// `to` is unreduced where `from` is not.
GSPMD_API ReshardPlan plan_reshard(const Shape& global, const Sharding& from, const Sharding& to);

GSPMD_API std::string to_string(
    const ReshardPlan& plan);  // "all-gather dim 1 (4,1); dynamic-slice dim 0 (2,4)"

}  // namespace gspmd
