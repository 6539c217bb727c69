#include "moves/halo.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "moves/piece_rounds.h"

namespace gspmd {
namespace {

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Interval needed(const HeldDim& dim, const Access& access, int64_t tile) {
  const int64_t first = access.first(tile);
  int64_t end = std::min(dim.size, access.end);
  if (access.until)
    end = std::min(end, floor_divide(access.step * tile + *access.until, access.divisor));
  return intersect({first, first + access.length}, {0, end});
}

// Tiles that stand for all: where each tile needs what its neighbour needs, one shard further on,
// only those near the ends differ from the ones between.
std::vector<int64_t> typical_tiles(const HeldDim& dim, const Access& access) {
  constexpr int64_t kEach = 64;
  const bool alike = access.step == dim.shard * access.divisor &&
                     access.length / dim.shard < kEach / 4 &&
                     std::abs(access.offset / access.divisor) / dim.shard < kEach / 4;
  std::vector<int64_t> tiles;
  for (int64_t t = 0; t < dim.tiles; ++t) {
    tiles.push_back(t);
    if (alike && t == 2 * kEach) t = std::max(t, dim.tiles - kEach - 1);
  }
  return tiles;
}

// One piece of one tile that another needs.
struct Edge {
  int64_t from = 0, to = 0;
  Interval part;
};

std::vector<Edge> edges_of(const HeldDim& dim, const Access& access, bool& own) {
  std::vector<Edge> edges;
  for (int64_t t = 0; t < dim.tiles; ++t) {
    const Interval need = needed(dim, access, t);
    if (need.size() == 0) continue;
    const int64_t last = std::min(dim.tiles - 1, (need.end - 1) / dim.shard);
    for (int64_t s = need.begin / dim.shard; s <= last; ++s) {
      if (s == t)
        own = true;
      else
        edges.push_back({s, t, intersect(need, dim.held(s))});
    }
  }
  return edges;
}

// The part is sent in this round, from element `send` of what the sender has on.
void add(TransferRound& round, int64_t tiles, const Edge& edge, int64_t send) {
  round.use.resize(static_cast<size_t>(tiles));
  round.send.resize(static_cast<size_t>(tiles));
  round.begin.resize(static_cast<size_t>(tiles));
  round.pairs.emplace_back(edge.from, edge.to);
  round.size = std::max(round.size, edge.part.size());
  round.use[static_cast<size_t>(edge.to)] = edge.part;
  round.send[static_cast<size_t>(edge.from)] = send;
}

// All senders of a round send as much, out of `held` elements: what is sent may begin before the
// part that is wanted. Returns how many elements one tile gets.
int64_t settle(std::vector<TransferRound>& rounds, int64_t held) {
  int64_t received = 0;
  for (TransferRound& r : rounds) {
    received += r.size;
    for (const auto& [from, to] : r.pairs) {
      int64_t& send = r.send[static_cast<size_t>(from)];
      const int64_t fits = std::min(send, held - r.size);
      r.begin[static_cast<size_t>(to)] = r.use[static_cast<size_t>(to)].begin - (send - fits);
      send = fits;
    }
  }
  return received;
}

int64_t most_at_one_tile(const std::vector<Edge>& edges, int64_t tiles) {
  std::vector<int64_t> out(static_cast<size_t>(tiles)), in(static_cast<size_t>(tiles));
  int64_t most = 0;
  for (const Edge& e : edges)
    most = std::max({most, ++out[static_cast<size_t>(e.from)], ++in[static_cast<size_t>(e.to)]});
  return most;
}

}  // namespace

Interval HeldDim::held(int64_t tile) const {
  return {std::min(size, tile * shard), std::min(size, (tile + 1) * shard)};
}

int64_t Access::first(int64_t tile) const { return floor_divide(step * tile + offset, divisor); }

bool is_addressable(const HeldDim& dim, const Access& access) {
  constexpr int64_t kMost = int64_t(1) << 28;
  const auto small = [](int64_t x) { return x > -kMost && x < kMost; };
  if (!small(dim.size) || !small(dim.tiles) || !small(dim.shard) || !small(access.step) ||
      !small(access.offset) || !small(access.divisor) || !small(access.length))
    return false;
  return small(dim.tiles * dim.shard) && small(access.step * dim.tiles + access.offset) &&
         dim.shard > 0 && access.length > 0;
}

Interval HaloPlan::piece(int64_t hop, int64_t shard) const {
  return {hop == hop_min ? cut_begin : 0, hop == hop_max ? cut_end : shard};
}

int64_t HaloPlan::buffer(int64_t shard) const {
  int64_t total = 0;
  for (int64_t h = hop_min; h <= hop_max; ++h) total += piece(h, shard).size();
  return total;
}

HaloPlan plan_halo(const HeldDim& dim, const Access& access) {
  HaloPlan plan;
  const int64_t shard = dim.shard;
  const std::vector<int64_t> tiles = typical_tiles(dim, access);
  for (const int64_t t : tiles) {
    const Interval need = needed(dim, access, t);
    if (need.size() == 0) continue;
    const int64_t first = need.begin / shard - t, last = (need.end - 1) / shard - t;
    const int64_t begin = need.begin - (t + first) * shard, end = need.end - (t + last) * shard;
    const bool fresh = plan.empty();
    if (fresh || first < plan.hop_min)
      plan.cut_begin = begin;
    else if (first == plan.hop_min)
      plan.cut_begin = std::min(plan.cut_begin, begin);
    if (fresh || last > plan.hop_max)
      plan.cut_end = end;
    else if (last == plan.hop_max)
      plan.cut_end = std::max(plan.cut_end, end);
    plan.hop_min = fresh ? first : std::min(plan.hop_min, first);
    plan.hop_max = fresh ? last : std::max(plan.hop_max, last);
  }
  if (plan.empty()) return plan;
  for (int64_t h = plan.hop_min; h <= plan.hop_max; ++h)
    if (h != 0) plan.received += plan.piece(h, shard).size();
  const int64_t buffer = plan.buffer(shard);
  std::optional<Interval> starts;
  for (const int64_t t : tiles) {
    if (needed(dim, access, t).size() == 0) continue;
    const int64_t start = access.first(t) - plan.base(t, shard);
    if (!starts) starts = {start, start};
    starts = Interval{std::min(starts->begin, start), std::max(starts->end, start)};
  }
  plan.low_pad = std::max<int64_t>(0, -starts->begin);
  plan.high_pad = std::max<int64_t>(0, starts->end + access.length - buffer);
  if (starts->begin == starts->end) plan.fixed_start = starts->begin + plan.low_pad;
  return plan;
}

namespace {

// Rounds for the edges, one after the other: each in its turn where it is free there (which fits
// where the needs of neighbours overlap at their ends only), else in the first round that has room.
TransferPlan rounds_for(const std::vector<Edge>& edges, const HeldDim& dim, bool in_turn) {
  TransferPlan plan;
  const int64_t degree = most_at_one_tile(edges, dim.tiles);
  std::map<std::pair<int64_t, int64_t>, bool> sends, gets;  // (round, tile)
  int64_t turn = 0;
  for (const Edge& e : edges) {
    int64_t round = in_turn ? turn++ % degree : 0;
    const auto free = [&](int64_t r) {
      return !sends.count({r, e.from}) && !gets.count({r, e.to});
    };
    if (!free(round))
      for (round = 0; !free(round);) ++round;
    sends[{round, e.from}] = gets[{round, e.to}] = true;
    if (round >= std::ssize(plan.rounds)) plan.rounds.resize(static_cast<size_t>(round) + 1);
    add(plan.rounds[static_cast<size_t>(round)], dim.tiles, e, e.part.begin - e.from * dim.shard);
  }
  plan.received = settle(plan.rounds, dim.shard);
  return plan;
}

}  // namespace

// In turn, or the largest first, so that a round holds edges of about one size.
TransferPlan plan_transfer(const HeldDim& dim, const Access& access) {
  bool own = false;
  std::vector<Edge> edges = edges_of(dim, access, own);
  TransferPlan plan = rounds_for(edges, dim, true);
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.part.size() > b.part.size(); });
  TransferPlan by_size = rounds_for(edges, dim, false);
  const auto cost = [](const TransferPlan& p) {
    return std::pair(p.received, std::ssize(p.rounds));
  };
  if (cost(by_size) < cost(plan)) plan = std::move(by_size);
  plan.own = own;
  return plan;
}

namespace {

// What tile `tile` has of a part, by positions of the joined dim.
Interval held_place(const HeldDim& source, const JoinedPart& part, int64_t tile) {
  const Interval both = intersect(source.held(tile), part.elements);
  const int64_t shift = part.at - part.elements.begin;
  return {both.begin + shift, std::max(both.begin, both.end) + shift};
}

std::vector<Piece> joined_pieces(const std::vector<HeldDim>& sources,
                                 const std::vector<JoinedPart>& parts, int64_t shard,
                                 std::vector<bool>& own) {
  std::vector<Piece> pieces;
  for (size_t p = 0; p < parts.size(); ++p) {
    const HeldDim& source = sources[static_cast<size_t>(parts[p].source)];
    for (int64_t from = 0; from < source.tiles; ++from) {
      const Interval has = held_place(source, parts[p], from);
      if (has.size() == 0) continue;
      for (int64_t to = has.begin / shard; to * shard < has.end; ++to) {
        const Interval piece = intersect(has, {to * shard, (to + 1) * shard});
        if (from == to)
          own[p] = true;
        else
          pieces.push_back({Box{{piece.begin}, {piece.size()}}, to, nullptr, piece.size(), from,
                            (to - from + source.tiles) % source.tiles});
      }
    }
  }
  return pieces;
}

}  // namespace

std::optional<JoinPlan> plan_join(const std::vector<HeldDim>& sources,
                                  const std::vector<JoinedPart>& parts, int64_t shard) {
  constexpr size_t kMostRounds = 16;
  JoinPlan plan;
  plan.own.resize(parts.size());
  const std::vector<Piece> pieces = joined_pieces(sources, parts, shard, plan.own);
  const std::vector<PieceRound> rounds = colour_pieces(pieces, kMostRounds);
  if (rounds.empty() && !pieces.empty()) return std::nullopt;
  std::vector<int64_t> begins{0};  // of the sources' shards, in a row
  for (const HeldDim& source : sources) begins.push_back(begins.back() + source.shard);
  for (const PieceRound& round : rounds) {
    TransferRound& r = plan.rounds.emplace_back();
    for (const PieceRound::Move& move : round.moves) {
      const int64_t at = move.use.start[0];
      const auto part = std::find_if(parts.begin(), parts.end(), [&](const JoinedPart& p) {
        return p.at <= at && at < p.place().end;
      });
      const HeldDim& source = sources[static_cast<size_t>(part->source)];
      const int64_t inside = at - part->at + part->elements.begin - move.source * source.shard;
      add(r, source.tiles, {move.source, move.target, {at, at + move.use.size[0]}},
          begins[static_cast<size_t>(part->source)] + inside);
    }
  }
  plan.received = settle(plan.rounds, begins.back());
  return plan;
}

}  // namespace gspmd
