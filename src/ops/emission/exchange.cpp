#include "ops/emission/exchange.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/emission/collectives.h"
#include "ops/emission/rounds.h"
#include "ops/emission/stair_round.h"

namespace gspmd {
namespace {

class Exchange {
 public:
  Exchange(PartitionContext& spmd, const ExchangedDim& from, const Access& access, Node* fill)
      : spmd_(spmd), from_(from), access_(access), fill_(fill) {}

  Node* run(Node* x) {
    if (from_.whole) return part_of(x);
    const ExchangeChoice choice = choose_exchange(from_.held, access_);
    switch (choice.kind) {
      case ExchangeKind::nothing:
        return splat(with_size(x->shape, access_.length));
      case ExchangeKind::neighbours:
        return neighbours(x, choice.halo);
      case ExchangeKind::transfer:
        return transferred(x, choice.transfer);
      case ExchangeKind::stairs:
        return climbed(x, choice.stairs);
      case ExchangeKind::gather:
        return part_of(gather_along(spmd_, x, from_.dim, from_.order, from_.digits));
    }
    internal_error("exchange: unknown kind");
  }

  Node* joined(const std::vector<Node*>& shards, const Join& join, const JoinPlan& plan) {
    Node* result = splat(with_size(shards[0]->shape, access_.length));
    Rounds rounds = rounds_of(result);
    for (size_t p = 0; p < join.parts.size(); ++p) {
      if (!plan.own[p]) continue;
      const JoinedPart& part = join.parts[p];
      const int64_t shard = join.sources[static_cast<size_t>(part.source)].shard;
      const IndexNode begin = tile() * shard + (part.at - part.elements.begin);
      const IndexNode from = maximum(begin, part.at), to = minimum(begin + shard, part.place().end);
      result =
          rounds.take(shards[static_cast<size_t>(part.source)], {{begin, from, to}}, result, fill_);
    }
    if (plan.rounds.empty()) return result;
    Node* row = shards.size() == 1 ? shards[0] : hlo::concatenate(shards, from_.dim);
    return received(row, plan.rounds, rounds, result);
  }

  // Of all parts in a row, whose positions in a plan are those of the rows of all tiles.
  Node* split(Node* x, const std::vector<Interval>& parts, const JoinPlan& plan) {
    const int64_t tiles = from_.held.tiles, shard = from_.held.shard, row = access_.length;
    Node* result = splat(with_size(x->shape, row));
    Rounds rounds(spmd_, from_.order, from_.digits, result->dims());
    rounds.add_dim({from_.dim, number(0), Table(static_cast<size_t>(tiles), 0)});
    int64_t at = 0;
    for (const Interval& part : parts) {
      const int64_t own = ceil_div(part.size(), tiles);
      const IndexNode begin = tile() * (shard - own) + (at - part.begin);
      result = rounds.take(x, {{begin, maximum(begin, at), minimum(begin + shard, at + own)}},
                           result, fill_);
      at += own;
    }
    std::vector<TransferRound> inside = plan.rounds;
    for (TransferRound& round : inside)
      for (const auto& [source, target] : round.pairs) {
        const auto t = static_cast<size_t>(target);
        round.begin[t] -= target * row;
        round.use[t] = {round.use[t].begin - target * row, round.use[t].end - target * row};
      }
    return received(x, inside, rounds, result);
  }

  Node* rotated(Node* x, int64_t by) {
    const int64_t shard = from_.held.shard, hop = by / shard, rest = by % shard;
    Node* front = turned(x, hop, {rest, shard});
    if (rest == 0) return front;
    return hlo::concatenate({front, turned(x, hop + 1, {0, rest})}, from_.dim);
  }

  Node* rotated(Node* x, IndexNode by) {
    const int64_t shard = from_.held.shard, tiles = from_.held.tiles;
    const IndexNode hop = by / shard % tiles;
    for (int64_t step = 1; step < tiles; step *= 2) {
      Node* const goes = compare(hop / step % 2, number(1), Direction::eq);
      x = hlo::select(hlo::broadcast(goes, x->dims(), {}), shifted(x, step, true), x);
    }
    if (shard == 1) return x;
    Node* const both = hlo::concatenate({x, shifted(x, 1, true)}, from_.dim);
    return gspmd::cut(both, from_.dim, by % shard, shard);
  }

 private:
  IndexNode number(int64_t value) { return {spmd_.local(), value}; }
  IndexNode tile() { return IndexNode(spmd_.digits_index(from_.order, from_.digits)); }

  Shape with_size(Shape shape, int64_t size) const {
    shape.dims[static_cast<size_t>(from_.dim)] = size;
    return shape;
  }

  Node* splat(const Shape& shape) {
    return fill_ ? hlo::broadcast(fill_, shape.dims, {}) : hlo::splat(spmd_.local(), shape, 0);
  }

  // Position of the first needed element. Divisions are of numbers that are not negative.
  IndexNode first() {
    const int64_t divisor = access_.divisor;
    if (access_.step == 0) return number(access_.first(0));
    int64_t raise = 0;
    if (divisor > 1)
      raise =
          std::max<int64_t>(0, -std::min(access_.first(0), access_.first(from_.held.tiles - 1)));
    return (tile() * access_.step + (access_.offset + raise * divisor)) / divisor + -raise;
  }

  Node* cut(Node* x, Interval part) { return gspmd::cut(x, from_.dim, part.begin, part.size()); }
  Node* cut(Node* x, IndexNode begin) { return gspmd::cut(x, from_.dim, begin, access_.length); }
  Node* pad(Node* x, int64_t low, int64_t high) {
    return gspmd::pad(x, from_.dim, low, high, fill_);
  }

  bool leaves_dim() const {
    for (const int64_t t : {int64_t(0), from_.held.tiles - 1})
      if (access_.first(t) < 0 || access_.first(t) + access_.length > from_.held.size) return true;
    return false;
  }

  // Whether what neighbours bring is zeros outside: nobody sends it, shards are full, and every
  // tile reads at the same place of its buffer, also one that needs nothing.
  bool zeros_arrive() const {
    const HeldDim& held = from_.held;
    if (held.size != held.tiles * held.shard || access_.step != access_.divisor * held.shard)
      return false;
    if (!fill_->is(Opcode::constant) || fill_->attrs.literal.empty()) return false;
    const std::span<const std::byte> bits = fill_->attrs.literal.bytes();
    return std::all_of(bits.begin(), bits.end(), [](std::byte b) { return b == std::byte(0); });
  }

  Node* fill_outside(Node* x) {
    if (!fill_ || !leaves_dim()) return x;
    const IndexNode end = number(from_.held.size), begin = number(0);
    return hlo::select(within(positions(x->dims(), from_.dim, first()), begin, end), x,
                       splat(x->shape));
  }

  // What the device `hop` tiles ahead has of `piece`.
  Node* shifted(Node* piece, int64_t hop, bool wrap) {
    return permute(spmd_, piece, shift_along(from_.order, from_.digits, -hop, wrap));
  }

  // A part of the shard `hop` tiles ahead, the last tile followed by the first.
  Node* turned(Node* x, int64_t hop, Interval part) {
    Node* piece = cut(x, part);
    return hop % from_.held.tiles == 0 ? piece : shifted(piece, hop, true);
  }

  Node* neighbours(Node* x, const HaloPlan& plan) {
    std::vector<Node*> pieces;
    for (int64_t hop = plan.hop_min; hop <= plan.hop_max; ++hop) {
      Node* piece = cut(x, plan.piece(hop, from_.held.shard));
      pieces.push_back(hop == 0 ? piece : shifted(piece, hop, false));
    }
    Node* buffer = pieces.size() == 1 ? pieces[0] : hlo::concatenate(pieces, from_.dim);
    buffer = pad(buffer, plan.low_pad, plan.high_pad);
    if (plan.fixed_start) {
      buffer = cut(buffer, {*plan.fixed_start, *plan.fixed_start + access_.length});
    } else {
      const IndexNode base = tile() * from_.held.shard + plan.base(0, from_.held.shard);
      buffer = cut(buffer, first() - base + plan.low_pad);
    }
    return fill_ && zeros_arrive() ? buffer : fill_outside(buffer);
  }

  // What the device needs of all of the dim.
  Node* part_of(Node* all) {
    const int64_t size = all->dim(from_.dim);
    const int64_t a = access_.first(0), b = access_.first(from_.held.tiles - 1);
    const int64_t low = std::max<int64_t>(0, -std::min(a, b));
    all = pad(all, low, std::max<int64_t>(0, std::max(a, b) + access_.length - size));
    return fill_outside(cut(all, first() + low));
  }

  Rounds rounds_of(const Node* result) {
    Rounds rounds(spmd_, from_.order, from_.digits, result->dims());
    ResultDim dim{from_.dim, first(), {}};
    for (int64_t t = 0; t < from_.held.tiles; ++t) dim.firsts.push_back(access_.first(t));
    rounds.add_dim(std::move(dim));
    return rounds;
  }

  // Over the tiles that need of what they have.
  std::optional<std::pair<int64_t, int64_t>> own_ahead() const {
    std::optional<std::pair<int64_t, int64_t>> ahead;
    for (int64_t t = 0; t < from_.held.tiles; ++t) {
      const int64_t first = access_.first(t), by = first - t * from_.held.shard;
      if (intersect({first, first + access_.length}, from_.held.held(t)).size() == 0) continue;
      ahead = {ahead ? std::min(ahead->first, by) : by, ahead ? std::max(ahead->second, by) : by};
    }
    return ahead;
  }

  Node* transferred(Node* x, const TransferPlan& plan) {
    Node* result = splat(with_size(x->shape, access_.length));
    Rounds rounds = rounds_of(result);
    if (plan.own) {
      const IndexNode begin = tile() * from_.held.shard;
      const IndexNode end = minimum(begin + from_.held.shard, from_.held.size);
      result = rounds.take(x, {{begin, begin, end, own_ahead()}}, result, fill_);
    }
    return received(x, plan.rounds, rounds, result);
  }

  Node* climbed(Node* x, const StairPlan& plan) {
    Node* result = splat(with_size(x->shape, access_.length));
    Rounds rounds(spmd_, from_.order, from_.digits, result->dims());
    rounds.add_dim({from_.dim, first(), {}});
    if (plan.own) {
      const IndexNode begin = tile() * from_.held.shard;
      const IndexNode end = minimum(begin + from_.held.shard, from_.held.size);
      result = rounds.take(x, {{begin, begin, end, own_ahead()}}, result, fill_);
    }
    for (const StairPlan::Round& round : plan.rounds) {
      const StairRound here = stair_round(plan, round, tile());
      Node* sent = x;
      if (round.size < x->dim(from_.dim)) sent = gspmd::cut(x, from_.dim, here.send, round.size);
      Node* const piece = permute(
          spmd_, sent, tiles_along(from_.order, from_.digits, stair_rule(plan, round.colour)));
      const std::pair ahead(round.least_ahead, round.greatest_ahead);
      result = rounds.take(piece, {{here.begin, here.from, here.to, ahead}}, result, fill_);
    }
    return result;
  }

  // `result` with what the rounds bring of `x`.
  Node* received(Node* x, const std::vector<TransferRound>& plan, Rounds& rounds, Node* result) {
    for (const TransferRound& round : plan) {
      Node* sent = x;
      if (round.size < x->dim(from_.dim))
        sent = gspmd::cut(x, from_.dim, rounds.look_up(round.send), round.size);
      TakenTables taken(1, from_.held.tiles);
      taken.along[0].begins = round.begin;
      for (const auto& [source, target] : round.pairs) {
        const auto t = static_cast<size_t>(target);
        taken.takes[t] = 1;
        taken.along[0].from[t] = round.use[t].begin;
        taken.along[0].to[t] = round.use[t].end;
      }
      result = rounds.take(rounds.permuted(sent, round.pairs), taken, result, fill_);
    }
    return result;
  }

  PartitionContext& spmd_;
  const ExchangedDim& from_;
  const Access& access_;
  Node* fill_;
};

}  // namespace

Node* exchange_joined(PartitionContext& spmd, const std::vector<Node*>& shards, const Join& join,
                      const JoinPlan& plan) {
  const Access access{join.result.shard, 0, 1, join.result.shard};
  const ExchangedDim from{join.dim, join.order, join.digits, join.result};
  return Exchange(spmd, from, access, nullptr).joined(shards, join, plan);
}

Node* exchange_split(PartitionContext& spmd, Node* x, const ExchangedDim& from,
                     const std::vector<Interval>& parts, const JoinPlan& plan) {
  int64_t row = 0;
  for (const Interval& part : parts) row += ceil_div(part.size(), from.held.tiles);
  return Exchange(spmd, from, Access{0, 0, 1, row}, nullptr).split(x, parts, plan);
}

Node* exchange(PartitionContext& spmd, Node* x, const ExchangedDim& from, const Access& access,
               Node* fill) {
  return Exchange(spmd, from, access, fill).run(x);
}

Node* rotate(PartitionContext& spmd, Node* x, const ExchangedDim& from, int64_t by) {
  return Exchange(spmd, from, {}, nullptr).rotated(x, by);
}

Node* rotate(PartitionContext& spmd, Node* x, const ExchangedDim& from, IndexNode by) {
  return Exchange(spmd, from, {}, nullptr).rotated(x, by);
}

int64_t bytes_to_turn(const Shape& shard, const ExchangedDim& from) {
  int64_t permutes = from.held.shard > 1 ? 1 : 0;
  for (int64_t step = 1; step < from.held.tiles; step *= 2) ++permutes;
  return saturating_multiply(permutes, shard.bytes());
}

Node* exchange_window(PartitionContext& spmd, Node* x, const ExchangedDim& from,
                      const WindowAccess& w, Node* fill) {
  const Access access = undilated(w);
  Node* y = exchange(spmd, x, from, access, fill);
  if (w.hole == 1) return y;
  // The first element stands hole - 1 or less after the place where the window begins.
  std::vector<PaddingDim> padding(y->dims().size());
  padding[static_cast<size_t>(from.dim)] = {
      w.hole - 1, std::max<int64_t>(0, w.length - (access.length - 1) * w.hole - 1), w.hole - 1};
  Node* spread = pad(y, std::move(padding), fill);
  if (w.step % w.hole == 0)
    return cut(spread, from.dim, w.hole - 1 - (access.first(0) * w.hole + w.low), w.length);
  // (step * t - low - 1) modulo hole, of a number that is not negative.
  const int64_t shift = (((-w.low - 1) % w.hole) + w.hole) % w.hole;
  const IndexNode tile(spmd.digits_index(from.order, from.digits));
  return cut(spread, from.dim, (tile * (w.step % w.hole) + shift) % w.hole, w.length);
}

}  // namespace gspmd
