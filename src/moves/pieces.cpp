#include "moves/pieces.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "moves/piece_rounds.h"
#include "moves/relay_pieces.h"

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

// The elements that both have.
int64_t shared_volume(const Box& a, const Box& b) {
  int64_t both = 1;
  for (size_t d = 0; d < a.start.size(); ++d) {
    const int64_t begin = std::max(a.start[d], b.start[d]);
    const int64_t end = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    if (end <= begin) return 0;
    both = saturating_multiply(both, end - begin);
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

// Parts of at most `chunk`: of all pieces, and of one target at most.
struct PartCount {
  int64_t all = 0, of_target = 0;
};

PartCount count_cut(const std::vector<Piece>& pieces, const Dims& chunk) {
  PartCount count;
  std::map<int64_t, int64_t> of_target;
  for (const Piece& piece : pieces) {
    int64_t parts = 1;
    for (size_t d = 0; d < chunk.size(); ++d)
      parts = saturating_multiply(parts, ceil_div(piece.part.size[d], chunk[d]));
    count.all = saturating_add(count.all, parts);
    int64_t& own = of_target[piece.target];
    own = saturating_add(own, parts);
    count.of_target = std::max(count.of_target, own);
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

constexpr int64_t kMostCut = 16;  // rounds of parts
constexpr int64_t kMostParts = 512;

// The rounds of `make`, which is given parts of one size, their most rounds, what is the least
// there can be, and below what there is a use for them.
template <class Make>
std::vector<PieceRound> fewest_rounds(const std::vector<Piece>& pieces, bool always_whole,
                                      int64_t below, Make make) {
  const int64_t received = received_most(pieces);
  std::vector<PieceRound> best;
  const std::vector<Dims> chunks = chunks_of(pieces);
  for (const Dims& chunk : chunks) {
    if (below <= received) break;
    const bool whole = chunk == chunks[0];
    if (!(whole && always_whole)) {
      const PartCount count = count_cut(pieces, chunk);  // a target receives one in a round
      if (count.all > kMostParts || count.of_target > kMostCut) continue;
    }
    std::vector<Piece> parts = whole ? pieces : cut(pieces, chunk);
    assign_sources(parts);
    std::vector<PieceRound> rounds = make(
        std::move(parts), whole && always_whole ? SIZE_MAX : size_t{kMostCut}, received, below);
    if (rounds.empty() || elements_of(rounds) >= below) continue;
    best = std::move(rounds);
    below = elements_of(best);
  }
  return best;
}

int64_t elements_lacking(std::span<const HeldBox> have, std::span<const HeldBox> want) {
  int64_t most = 0;
  for (const HeldBox& w : want) {
    const Box* own = box_of(have, w.device);
    most = std::max(most, volume(w.box.size) - (own ? shared_volume(w.box, *own) : 0));
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
      if (const int64_t shared = shared_volume(tile.box, goal.box);
          shared > 0 && !std::includes(tile.holders.begin(), tile.holders.end(),
                                       goal.holders.begin(), goal.holders.end()))
        leaving += shared;
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

namespace {

// What has to be sent, and `plan` with all but the rounds.
std::vector<Piece> pieces_of(std::span<const HeldBox> have, std::span<const HeldBox> want,
                             const std::map<Dims, Tile>& tiles, PieceTransfer& plan) {
  std::vector<Piece> pieces;
  const int64_t devices =
      have.empty() || want.empty() ? 1 : std::max(have.back().device, want.back().device) + 1;
  for (const HeldBox& w : want) {
    if (volume(w.box.size) == 0) continue;
    const Box* own = box_of(have, w.device);
    plan.in_place = plan.in_place && own && own->start == w.box.start && own->size == w.box.size;
    for (const auto& [start, tile] : tiles) {
      const int64_t size = shared_volume(w.box, tile.box);
      if (size == 0) continue;
      if (own && own->start == start && volume(own->size) > 0) {
        plan.own = true;
        continue;
      }
      pieces.push_back({intersect(w.box, tile.box), w.device, &tile.holders, size, -1,
                        (w.device - tile.holders[0] + devices) % devices});
    }
  }
  return pieces;
}

// The rounds as they are emitted: what is sent lies in the sender's shard.
void settle(PieceTransfer& plan, std::span<const HeldBox> have, std::span<const HeldBox> want,
            const Dims& have_shard, const Dims& want_shard) {
  for (PieceRound& round : plan.rounds) {
    plan.elements = saturating_add(plan.elements, volume(round.size));
    for (PieceRound::Move& move : round.moves) {
      const Box& held = *box_of(move.relayed ? want : have, move.source);
      const Dims& shard = move.relayed ? want_shard : have_shard;
      for (size_t d = 0; d < shard.size(); ++d)
        move.begin[d] = std::min(move.begin[d], held.start[d] + shard[d] - round.size[d]);
    }
    std::sort(round.moves.begin(), round.moves.end(),
              [](const auto& a, const auto& b) { return a.source < b.source; });
  }
}

}  // namespace

namespace {

int64_t& planned() {
  static thread_local int64_t count = 0;
  return count;
}

}  // namespace

int64_t transfers_planned() { return planned(); }

PieceTransfer plan_pieces(std::span<const HeldBox> have, std::span<const HeldBox> want,
                          const Dims& have_shard, const Dims& want_shard) {
  ++planned();
  PieceTransfer plan;
  const std::map<Dims, Tile> tiles = tiles_of(have);
  const std::vector<Piece> pieces = pieces_of(have, want, tiles, plan);
  if (!pieces.empty())
    plan.rounds = fewest_rounds(pieces, true, INT64_MAX,
                                [](std::vector<Piece> parts, size_t most, int64_t, int64_t) {
                                  return colour_pieces(std::move(parts), most);
                                });
  settle(plan, have, want, have_shard, want_shard);
  return plan;
}

std::optional<PieceTransfer> plan_relays(std::span<const HeldBox> have,
                                         std::span<const HeldBox> want, const Dims& have_shard,
                                         const Dims& want_shard, int64_t below) {
  ++planned();
  PieceTransfer plan;
  const std::map<Dims, Tile> tiles = tiles_of(have);
  const std::vector<Piece> pieces = pieces_of(have, want, tiles, plan);
  if (pieces.empty()) return std::nullopt;
  plan.rounds =
      fewest_rounds(pieces, false, below,
                    [](const std::vector<Piece>& parts, size_t most, int64_t least, int64_t under) {
                      return relay_pieces(parts, most, least, under);
                    });
  if (plan.rounds.empty()) return std::nullopt;
  settle(plan, have, want, have_shard, want_shard);
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
