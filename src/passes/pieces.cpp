#include "passes/pieces.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "passes/trip_count.h"

namespace gspmd {
namespace {

int64_t volume(const Dims& size) {
  int64_t count = 1;
  for (const int64_t d : size) count = saturating_multiply(count, d);
  return count;
}

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

// A tile of the value as it is held, and who holds it.
struct Tile {
  Box box;
  std::vector<int64_t> holders;
};

struct Piece {
  const Tile* tile = nullptr;
  int64_t target = 0;
  Box part;
  int64_t volume = 0;
  int64_t shift = 0;  // from the first holder on, so that pieces in turn make rounds
};

const Box* box_of(std::span<const HeldBox> boxes, int64_t device) {
  const auto at = std::lower_bound(boxes.begin(), boxes.end(), device,
                                   [](const HeldBox& b, int64_t d) { return b.device < d; });
  return at == boxes.end() || at->device != device ? nullptr : &at->box;
}

// Rounds being filled: each piece goes where it makes the least more to send.
class Rounds {
 public:
  void add(const Piece& piece) {
    size_t best = rounds_.size();
    int64_t best_growth = piece.volume, best_source = piece.tile->holders[0];
    for (size_t r = 0; r < rounds_.size(); ++r) {
      const std::optional<int64_t> source = free_source(r, piece);
      if (!source) continue;
      const int64_t growth = volume(joined(rounds_[r].size, piece.part.size)) - sizes_[r];
      if (growth > best_growth || (growth == best_growth && best < rounds_.size())) continue;
      best = r;
      best_growth = growth;
      best_source = *source;
      if (growth == 0) break;
    }
    if (best == rounds_.size()) {
      rounds_.push_back({{}, piece.part.size});
      sizes_.push_back(piece.volume);
      busy_.emplace_back();
    } else if (best_growth > 0) {
      rounds_[best].size = joined(rounds_[best].size, piece.part.size);
      sizes_[best] = volume(rounds_[best].size);
    }
    rounds_[best].moves.push_back({best_source, piece.target, piece.part.start, piece.part});
    busy_[best].sources.insert(best_source);
    busy_[best].targets.insert(piece.target);
  }
  std::vector<PieceRound> take() { return std::move(rounds_); }

 private:
  struct Busy {
    std::unordered_set<int64_t> sources, targets;
  };
  static Dims joined(Dims a, const Dims& b) {
    for (size_t d = 0; d < a.size(); ++d) a[d] = std::max(a[d], b[d]);
    return a;
  }
  std::optional<int64_t> free_source(size_t r, const Piece& piece) const {
    if (busy_[r].targets.count(piece.target)) return std::nullopt;
    for (const int64_t holder : piece.tile->holders)
      if (!busy_[r].sources.count(holder)) return holder;
    return std::nullopt;
  }
  std::vector<PieceRound> rounds_;
  std::vector<int64_t> sizes_;
  std::vector<Busy> busy_;
};

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
                          std::span<const HeldBox> want, const Dims& have_shard) {
  PieceTransfer plan;
  plan.have.assign(have.begin(), have.end());
  plan.want.assign(want.begin(), want.end());
  std::map<Dims, Tile> tiles;
  for (const HeldBox& h : have) {
    if (volume(h.box.size) == 0) continue;
    Tile& tile = tiles[h.box.start];
    tile.box = h.box;
    tile.holders.push_back(h.device);
  }
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
      pieces.push_back({&tile, w.device, std::move(part), size,
                        (w.device - tile.holders[0] + devices) % devices});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.volume != b.volume ? a.volume > b.volume : a.shift < b.shift;
  });
  Rounds rounds;
  for (const Piece& piece : pieces) rounds.add(piece);
  plan.rounds = rounds.take();
  for (PieceRound& round : plan.rounds) {
    plan.elements = saturating_add(plan.elements, volume(round.size));
    for (PieceRound::Move& move : round.moves) {  // what is sent lies in the shard
      const Box& held = *box_of(have, move.source);
      for (size_t d = 0; d < global.size(); ++d)
        move.begin[d] = std::min(move.begin[d], held.start[d] + have_shard[d] - round.size[d]);
    }
    std::sort(round.moves.begin(), round.moves.end(),
              [](const auto& a, const auto& b) { return a.source < b.source; });
  }
  return plan;
}

int64_t elements_lacking(std::span<const HeldBox> have, std::span<const HeldBox> want) {
  int64_t most = 0;
  for (const HeldBox& w : want) {
    const Box* own = box_of(have, w.device);
    most = std::max(most, volume(w.box.size) - (own ? volume(intersect(w.box, *own).size) : 0));
  }
  return most;
}

}  // namespace gspmd
