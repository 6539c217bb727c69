#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "gspmd/base/shape.h"

namespace gspmd {

struct Interval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end > begin ? end - begin : 0; }
};
inline Interval intersect(Interval a, Interval b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// A dim of `size` elements held in `tiles` pieces: tile t has [t * shard, (t + 1) * shard) of it.
struct HeldDim {
  int64_t size = 0, tiles = 1, shard = 0;
  Interval held(int64_t tile) const;
};

// Tile t needs the `length` elements from floor((step * t + offset) / divisor) on. Elements outside
// of the dim are not moved, nor those from `end` on, which only the tail of the last shards reads,
// nor those of tile t from floor((step * t + until) / divisor) on.
struct Access {
  int64_t step = 0, offset = 0, divisor = 1, length = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> until = std::nullopt;
  int64_t first(int64_t tile) const;
};

// Whether all positions that a plan for this access computes fit into s32, with a margin.
bool is_addressable(const HeldDim& dim, const Access& access);

// Neighbours by neighbours: tile t gets, for each hop h from hop_min to hop_max, the shard of tile
// t + h. Of the first only what lies at or after `cut_begin`, of the last only what lies before
// `cut_end` (both positions in a shard). The pieces in a row are the buffer; the first element that
// tile t needs stands at first(t) - base(t) of it.
struct HaloPlan {
  int64_t hop_min = 0, hop_max = -1;  // no hop: nothing is needed anywhere
  int64_t cut_begin = 0, cut_end = 0;
  int64_t low_pad = 0, high_pad = 0;   // of the buffer, so that no needed interval leaves it
  std::optional<int64_t> fixed_start;  // in the padded buffer, where it is the same for all tiles
  int64_t received = 0;                // elements that one tile gets from others

  bool empty() const { return hop_max < hop_min; }
  Interval piece(int64_t hop, int64_t shard) const;  // part of the shard that this hop brings
  int64_t base(int64_t tile, int64_t shard) const { return (tile + hop_min) * shard + cut_begin; }
  int64_t buffer(int64_t shard) const;
};
HaloPlan plan_halo(const HeldDim& dim, const Access& access);

// One collective-permute of a transfer: who sends to whom (tiles), `size` elements each.
struct TransferRound {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  int64_t size = 0;
  std::vector<int64_t> send;   // per tile: position in its shard where what it sends begins
  std::vector<int64_t> begin;  // per tile: global position of what it receives
  std::vector<Interval> use;   // per tile: the global positions that it takes from it
};

// Tiles far apart or in another direction: rounds in which every tile sends to at most one tile and
// receives from at most one.
struct TransferPlan {
  std::vector<TransferRound> rounds;
  bool own = false;      // some tile needs of what it has itself
  int64_t received = 0;  // elements that one tile gets from others
};
TransferPlan plan_transfer(const HeldDim& dim, const Access& access);

// One of the parts that stand side by side in a joined dim: the elements of held dim number
// `source`, the first of them at position `at`.
struct JoinedPart {
  int64_t source = 0;
  Interval elements;
  int64_t at = 0;
  Interval place() const { return {at, at + elements.size()}; }
};

// All parts at once: tile t is to have [t * shard, (t + 1) * shard) of the joined dim. What a tile
// sends begins at `send` of the shards of all sources in a row; positions are those of the joined
// dim. nullopt: more than 16 rounds.
struct JoinPlan {
  std::vector<TransferRound> rounds;
  std::vector<bool> own;  // by part: whether some tile needs of what it has itself
  int64_t received = 0;
};
std::optional<JoinPlan> plan_join(const std::vector<HeldDim>& sources,
                                  const std::vector<JoinedPart>& parts, int64_t shard);

}  // namespace gspmd
