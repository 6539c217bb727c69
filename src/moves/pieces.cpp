#include "moves/pieces.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "moves/piece_rounds.h"
#include "moves/relay_rounds.h"

namespace gspmd {
namespace {

Box intersect(const Box& a, const Box& b) {
  Box both{a.start, a.size};
  for (size_t d = 0; d < a.start.size(); ++d) {
    const int64_t begin = std::max(a.start[d], b.start[d]);
    const int64_t end = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    both.start[d] = begin;
    both.size[d] = std::max<int64_t>(0, end - begin);
  }
  return both;
}

// A tile of the value, and who holds it, ascending.
struct Tile {
  Box box;
  std::vector<int64_t> holders;
};

// By where they start. `boxes` by ascending device.
std::map<Dims, Tile> tiles_of(std::span<const HeldBox> boxes) {
  std::map<Dims, Tile> tiles;
  for (const HeldBox& b : boxes) {
    if (volume(b.box.size) == 0) continue;
    Tile& tile = tiles[b.box.start];
    tile.box = b.box;
    tile.holders.push_back(b.device);
  }
  return tiles;
}

const Box* box_of(std::span<const HeldBox> boxes, int64_t device) {
  const auto at = std::lower_bound(boxes.begin(), boxes.end(), device,
                                   [](const HeldBox& b, int64_t d) { return b.device < d; });
  return at == boxes.end() || at->device != device ? nullptr : &at->box;
}

// The boxes cut into parts of at most `chunk` per dim.
std::vector<Piece> cut(const std::vector<Piece>& pieces, const Dims& chunk) {
  std::vector<Piece> parts;
  for (const Piece& piece : pieces) {
    Piece part = piece;
    const auto go = [&](const auto& self, size_t d) -> void {
      if (d == chunk.size()) {
        part.volume = volume(part.part.size);
        parts.push_back(part);
        return;
      }
      const int64_t end = piece.part.start[d] + piece.part.size[d];
      for (int64_t at = piece.part.start[d]; at < end; at += chunk[d]) {
        part.part.start[d] = at;
        part.part.size[d] = std::min(chunk[d], end - at);
        self(self, d + 1);
      }
    };
    go(go, 0);
  }
  return parts;
}

// Sizes of parts that make the pieces more alike: as they are, the least of them, what divides all
// of them, and parts of that.
std::vector<Dims> chunks_of(const std::vector<Piece>& pieces) {
  const size_t rank = pieces[0].part.size.size();
  Dims most(rank, 0), least(rank, INT64_MAX), common(rank, 0);
  for (const Piece& piece : pieces)
    for (size_t d = 0; d < rank; ++d) {
      most[d] = std::max(most[d], piece.part.size[d]);
      least[d] = std::min(least[d], piece.part.size[d]);
      common[d] = std::gcd(common[d], piece.part.size[d]);
    }
  std::vector<Dims> chunks{most};
  if (rank == 0) return chunks;
  Dims half = common;  // so that what is handed on need not wait for all of it
  int64_t& widest = *std::max_element(half.begin(), half.end());
  widest = ceil_div(widest, 2);
  Dims quarter = half;
  int64_t& wide = *std::max_element(quarter.begin(), quarter.end());
  wide = ceil_div(wide, 2);
  for (const Dims& chunk : {least, common, half, quarter})
    if (chunk != chunks.back()) chunks.push_back(chunk);
  return chunks;
}

int64_t count_cut(const std::vector<Piece>& pieces, const Dims& chunk) {
  int64_t count = 0;
  for (const Piece& piece : pieces) {
    int64_t parts = 1;
    for (size_t d = 0; d < chunk.size(); ++d)
      parts = saturating_multiply(parts, ceil_div(piece.part.size[d], chunk[d]));
    count = saturating_add(count, parts);
  }
  return count;
}

int64_t received_most(const std::vector<Piece>& pieces) {
  std::map<int64_t, int64_t> received;
  for (const Piece& piece : pieces) received[piece.target] += piece.volume;
  int64_t most = 0;
  for (const auto& [device, elements] : received) most = std::max(most, elements);
  return most;
}

std::vector<PieceRound> rounds_of(const std::vector<Piece>& pieces, bool relays) {
  constexpr int64_t kMostParts = 512;
  constexpr size_t kMostCut = 16;
  const int64_t received = received_most(pieces);
  std::vector<PieceRound> best;
  const auto keep = [&](std::vector<PieceRound> rounds) {
    if (!rounds.empty() && (best.empty() || elements_of(rounds) < elements_of(best)))
      best = std::move(rounds);
  };
  const std::vector<Dims> chunks = chunks_of(pieces);
  for (int relay = 0; relay <= (relays ? 1 : 0); ++relay)
    for (const Dims& chunk : chunks) {
      if (!best.empty() && elements_of(best) <= received) return best;
      const bool whole = chunk == chunks[0];
      if ((!whole || relay != 0) && count_cut(pieces, chunk) > kMostParts) continue;
      std::vector<Piece> parts = whole ? pieces : cut(pieces, chunk);
      assign_sources(parts);
      if (relay != 0)
        keep(relay_pieces(parts, kMostCut, received));
      else
        keep(colour_pieces(std::move(parts), whole ? SIZE_MAX : kMostCut));
    }
  return best;
}

int64_t elements_lacking(std::span<const HeldBox> have, std::span<const HeldBox> want) {
  int64_t most = 0;
  for (const HeldBox& w : want) {
    const Box* own = box_of(have, w.device);
    most = std::max(most, volume(w.box.size) - (own ? volume(intersect(w.box, *own).size) : 0));
  }
  return most;
}

// Those that hold a tile share the sending of what others want of it, once each.
int64_t elements_leaving(std::span<const HeldBox> have, std::span<const HeldBox> want) {
  const std::map<Dims, Tile> wanted = tiles_of(want);
  int64_t most = 0;
  for (const auto& [start, tile] : tiles_of(have)) {
    int64_t leaving = 0;
    for (const auto& [at, goal] : wanted)
      if (!std::includes(tile.holders.begin(), tile.holders.end(), goal.holders.begin(),
                         goal.holders.end()))
        leaving += volume(intersect(tile.box, goal.box).size);
    most = std::max(most, ceil_div(leaving, std::ssize(tile.holders)));
  }
  return most;
}

}  // namespace

std::vector<HeldBox> held_boxes(const Shape& global, const Sharding& s, int64_t num_devices) {
  std::vector<HeldBox> boxes;
  const auto add = [&](int64_t device) { boxes.push_back({device, shard_box(global, s, device)}); };
  if (s.kind() == ShardingKind::maximal)
    add(s.device());
  else if (!s.order())
    for (int64_t device = 0; device < num_devices; ++device) add(device);
  else
    for (int64_t rank = 0; rank < s.order()->count; ++rank) add(s.order()->device(rank));
  std::sort(boxes.begin(), boxes.end(),
            [](const HeldBox& a, const HeldBox& b) { return a.device < b.device; });
  return boxes;
}

PieceTransfer plan_pieces(const Dims& global, std::span<const HeldBox> have,
                          std::span<const HeldBox> want, const Dims& have_shard,
                          const Dims& want_shard, bool relays) {
  PieceTransfer plan;
  plan.have.assign(have.begin(), have.end());
  plan.want.assign(want.begin(), want.end());
  std::map<Dims, Tile> tiles = tiles_of(have);
  std::vector<Piece> pieces;
  const int64_t devices =
      have.empty() || want.empty() ? 1 : std::max(have.back().device, want.back().device) + 1;
  for (const HeldBox& w : want) {
    if (volume(w.box.size) == 0) continue;
    const Box* own = box_of(have, w.device);
    plan.in_place = plan.in_place && own && own->start == w.box.start && own->size == w.box.size;
    for (const auto& [start, tile] : tiles) {
      Box part = intersect(w.box, tile.box);
      const int64_t size = volume(part.size);
      if (size == 0) continue;
      if (own && own->start == start && volume(own->size) > 0) {
        plan.own = true;
        continue;
      }
      pieces.push_back({std::move(part), w.device, &tile.holders, size, -1,
                        (w.device - tile.holders[0] + devices) % devices});
    }
  }
  if (!pieces.empty()) plan.rounds = rounds_of(pieces, relays);
  for (PieceRound& round : plan.rounds) {
    plan.elements = saturating_add(plan.elements, volume(round.size));
    for (PieceRound::Move& move : round.moves) {  // what is sent lies in the shard
      const Box& held = *box_of(move.relayed ? want : have, move.source);
      const Dims& shard = move.relayed ? want_shard : have_shard;
      for (size_t d = 0; d < global.size(); ++d)
        move.begin[d] = std::min(move.begin[d], held.start[d] + shard[d] - round.size[d]);
    }
    std::sort(round.moves.begin(), round.moves.end(),
              [](const auto& a, const auto& b) { return a.source < b.source; });
  }
  return plan;
}

int64_t elements_needed(std::span<const HeldBox> have, std::span<const HeldBox> want) {
  return std::max(elements_lacking(have, want), elements_leaving(have, want));
}

bool lacks_nothing(std::span<const HeldBox> have, std::span<const HeldBox> want) {
  return std::all_of(want.begin(), want.end(), [&](const HeldBox& w) {
    if (volume(w.box.size) == 0) return true;
    const Box* own = box_of(have, w.device);
    if (!own) return false;
    for (size_t d = 0; d < w.box.size.size(); ++d)
      if (w.box.start[d] < own->start[d] ||
          w.box.start[d] + w.box.size[d] > own->start[d] + own->size[d])
        return false;
    return true;
  });
}

}  // namespace gspmd
