#include "ops/emission/exchange.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

class Exchange {
 public:
  Exchange(PartitionContext& spmd, const ExchangedDim& from, const Access& access, Node* fill)
      : spmd_(spmd), from_(from), access_(access), fill_(fill) {}

  Node* run(Node* x) {
    if (from_.whole) return part_of(x);
    const ExchangeChoice choice = choose_exchange(from_.held, access_, from_.order->count);
    switch (choice.kind) {
      case ExchangeKind::nothing:
        return splat(with_size(x->shape, access_.length));
      case ExchangeKind::neighbours:
        return neighbours(x, choice.halo);
      case ExchangeKind::transfer:
        return transferred(x, choice.transfer);
      case ExchangeKind::gather:
        return whole(x);
    }
    internal_error("exchange: unknown kind");
  }

  Node* joined(const std::vector<Node*>& shards, const Join& join, const JoinPlan& plan) {
    Node* result = splat(with_size(shards[0]->shape, access_.length));
    Node* at = positions(result->dims());
    for (size_t p = 0; p < join.parts.size(); ++p) {
      if (!plan.own[p]) continue;
      const JoinedPart& part = join.parts[p];
      const int64_t shard = join.sources[static_cast<size_t>(part.source)].shard;
      Node* begin = plus(times(tile(), shard), part.at - part.elements.begin);
      Node* from = hlo::binary(Opcode::maximum, begin, number(part.at));
      Node* to = hlo::binary(Opcode::minimum, plus(begin, shard), number(part.place().end));
      result = hlo::select(within(at, from, to),
                           aligned(shards[static_cast<size_t>(part.source)], begin), result);
    }
    if (plan.rounds.empty()) return result;
    Node* row = shards.size() == 1 ? shards[0] : hlo::concatenate(shards, from_.dim);
    return received(row, plan.rounds, at, result);
  }

  Node* rotated(Node* x, int64_t by) {
    const int64_t shard = from_.held.shard, hop = by / shard, rest = by % shard;
    Node* front = turned(x, hop, {rest, shard});
    if (rest == 0) return front;
    return hlo::concatenate({front, turned(x, hop + 1, {0, rest})}, from_.dim);
  }

 private:
  Node* number(int64_t value) {
    return hlo::scalar(spmd_.local(), DType::s32, static_cast<double>(value));
  }
  Node* plus(Node* a, int64_t value) {
    return value == 0 ? a : hlo::binary(Opcode::add, a, number(value));
  }
  Node* times(Node* a, int64_t value) {
    return value == 1 ? a : hlo::binary(Opcode::multiply, a, number(value));
  }
  Node* tile() { return spmd_.digits_index(from_.order, from_.digits); }

  Shape with_size(Shape shape, int64_t size) const {
    shape.dims[static_cast<size_t>(from_.dim)] = size;
    return shape;
  }

  Node* splat(const Shape& shape) {
    return fill_ ? hlo::broadcast(fill_, shape.dims, {}) : hlo::splat(spmd_.local(), shape, 0);
  }

  // Position of the first needed element, s32[]. Divisions are of numbers that are not negative.
  Node* first() {
    const int64_t divisor = access_.divisor;
    if (access_.step == 0) return number(access_.first(0));
    int64_t raise = 0;
    if (divisor > 1)
      raise =
          std::max<int64_t>(0, -std::min(access_.first(0), access_.first(from_.held.tiles - 1)));
    Node* at = plus(times(tile(), access_.step), access_.offset + raise * divisor);
    if (divisor > 1) at = hlo::binary(Opcode::divide, at, number(divisor));
    return plus(at, -raise);
  }

  Node* cut(Node* x, Interval part) {
    if (part.begin == 0 && part.end == x->dim(from_.dim)) return x;
    Dims starts(x->dims().size(), 0), limits = x->dims();
    starts[static_cast<size_t>(from_.dim)] = part.begin;
    limits[static_cast<size_t>(from_.dim)] = part.end;
    return hlo::slice(x, starts, limits, Dims(starts.size(), 1));
  }

  Node* cut(Node* x, Node* start, int64_t size) {
    std::vector<Node*> starts(x->dims().size(), number(0));
    starts[static_cast<size_t>(from_.dim)] = start;
    return hlo::dynamic_slice(x, std::move(starts), with_size(x->shape, size).dims);
  }

  Node* pad(Node* x, int64_t low, int64_t high) {
    if (low == 0 && high == 0) return x;
    std::vector<PaddingDim> padding(x->dims().size());
    padding[static_cast<size_t>(from_.dim)] = {low, high, 0};
    Node* value = fill_ ? fill_ : hlo::scalar(spmd_.local(), x->shape.dtype, 0);
    return hlo::pad(x, value, std::move(padding));
  }

  // Global positions of the elements of the result, in the result's shape.
  Node* positions(const Dims& dims) {
    Node* iota = hlo::iota(spmd_.local(), Shape(DType::s32, dims), from_.dim);
    return hlo::binary(Opcode::add, iota, hlo::broadcast(first(), dims, {}));
  }

  Node* within(Node* positions, Node* begin, Node* end) {
    const Dims& dims = positions->dims();
    return hlo::binary(Opcode::and_,
                       hlo::compare(positions, hlo::broadcast(begin, dims, {}), Direction::ge),
                       hlo::compare(positions, hlo::broadcast(end, dims, {}), Direction::lt));
  }

  bool leaves_dim() const {
    for (const int64_t t : {int64_t(0), from_.held.tiles - 1})
      if (access_.first(t) < 0 || access_.first(t) + access_.length > from_.held.size) return true;
    return false;
  }

  Node* fill_outside(Node* x) {
    if (!fill_ || !leaves_dim()) return x;
    Node* inside = within(positions(x->dims()), number(0), number(from_.held.size));
    return hlo::select(inside, x, splat(x->shape));
  }

  // What the device `hop` tiles ahead has of `piece`.
  Node* shifted(Node* piece, int64_t hop, bool wrap) {
    Attributes attrs;
    attrs.channel_id = 1;
    attrs.permutation = shift_along(from_.order, from_.digits, -hop, wrap);
    return spmd_.emit(Opcode::collective_permute, piece->shape, {piece}, attrs);
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
    if (plan.fixed_start)
      return fill_outside(cut(buffer, {*plan.fixed_start, *plan.fixed_start + access_.length}));
    Node* base = plus(times(tile(), from_.held.shard), plan.base(0, from_.held.shard));
    Node* start = plus(hlo::binary(Opcode::subtract, first(), base), plan.low_pad);
    return fill_outside(cut(buffer, start, access_.length));
  }

  Node* whole(Node* x) {
    Attributes attrs;
    attrs.replica_groups = spmd_.groups(from_.order, from_.digits);
    attrs.channel_id = 1;
    attrs.use_global_device_ids = true;
    attrs.dimensions = {from_.dim};
    const int64_t size = from_.held.tiles * from_.held.shard;
    return part_of(spmd_.emit(Opcode::all_gather, with_size(x->shape, size), {x}, attrs));
  }

  // What the device needs of all of the dim.
  Node* part_of(Node* all) {
    const int64_t size = all->dim(from_.dim);
    const int64_t a = access_.first(0), b = access_.first(from_.held.tiles - 1);
    const int64_t low = std::max<int64_t>(0, -std::min(a, b));
    all = pad(all, low, std::max<int64_t>(0, std::max(a, b) + access_.length - size));
    return fill_outside(cut(all, plus(first(), low), access_.length));
  }

  Node* look_up(const std::vector<int64_t>& by_tile) {
    if (std::all_of(by_tile.begin(), by_tile.end(),
                    [&](int64_t x) { return x == by_tile.front(); }))
      return number(by_tile.front());
    const int64_t step = by_tile[1] - by_tile[0];
    bool straight = true;
    for (size_t t = 1; t < by_tile.size() && straight; ++t)
      straight = by_tile[t] - by_tile[t - 1] == step;
    if (straight) return plus(times(tile(), step), by_tile[0]);
    std::vector<int32_t> values(by_tile.begin(), by_tile.end());
    Node* table = hlo::constant(spmd_.local(), Array::of<int32_t>({std::ssize(values)}, values));
    return hlo::reshape(hlo::dynamic_slice(table, {tile()}, {1}), {});
  }

  // The same pairs of tiles for every choice of the other digits.
  Permutation permutation(const std::vector<std::pair<int64_t, int64_t>>& tiles) {
    std::vector<int64_t> next(static_cast<size_t>(from_.held.tiles), -1);
    for (const auto& [source, target] : tiles) next[static_cast<size_t>(source)] = target;
    Permutation result;
    for (int64_t rank = 0; rank < from_.order->count; ++rank) {
      int64_t to = next[static_cast<size_t>(tile_index(from_.digits, rank))];
      if (to < 0) continue;
      int64_t target = rank;
      for (size_t i = from_.digits.size(); i-- > 0;) {
        const Digit& digit = from_.digits[i];
        target += (to % digit.size - rank / digit.stride % digit.size) * digit.stride;
        to /= digit.size;
      }
      result.pairs.emplace_back(from_.order->device(rank), from_.order->device(target));
    }
    std::sort(result.pairs.begin(), result.pairs.end());
    return result;
  }

  // Elements of `piece`, whose first has the global position `begin`, where the result has them.
  Node* aligned(Node* piece, Node* begin) {
    Node* start = plus(hlo::binary(Opcode::subtract, first(), begin), access_.length);
    return cut(pad(piece, access_.length, access_.length), start, access_.length);
  }

  Node* transferred(Node* x, const TransferPlan& plan) {
    const Shape shape = with_size(x->shape, access_.length);
    Node* result = splat(shape);
    Node* at = positions(shape.dims);
    if (plan.own) {
      Node* begin = times(tile(), from_.held.shard);
      Node* end =
          hlo::binary(Opcode::minimum, plus(begin, from_.held.shard), number(from_.held.size));
      result = hlo::select(within(at, begin, end), aligned(x, begin), result);
    }
    return received(x, plan.rounds, at, result);
  }

  // `result`, whose elements are those `at` these positions, with what the rounds bring of `x`.
  Node* received(Node* x, const std::vector<TransferRound>& rounds, Node* at, Node* result) {
    for (const TransferRound& round : rounds) {
      Node* sent = round.size == x->dim(from_.dim) ? x : cut(x, look_up(round.send), round.size);
      Attributes attrs;
      attrs.channel_id = 1;
      attrs.permutation = permutation(round.pairs);
      Node* piece = spmd_.emit(Opcode::collective_permute, sent->shape, {sent}, attrs);
      std::vector<int64_t> begins, ends;
      for (const Interval& use : round.use) {
        begins.push_back(use.begin);
        ends.push_back(use.end);
      }
      Node* taken = within(at, look_up(begins), look_up(ends));
      result = hlo::select(taken, aligned(piece, look_up(round.begin)), result);
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

Node* exchange(PartitionContext& spmd, Node* x, const ExchangedDim& from, const Access& access,
               Node* fill) {
  return Exchange(spmd, from, access, fill).run(x);
}

Node* rotate(PartitionContext& spmd, Node* x, const ExchangedDim& from, int64_t by) {
  return Exchange(spmd, from, {}, nullptr).rotated(x, by);
}

Node* exchange_window(PartitionContext& spmd, Node* x, const ExchangedDim& from,
                      const WindowAccess& w, Node* fill) {
  const Access access = undilated(w);
  Node* y = exchange(spmd, x, from, access, fill);
  if (w.hole == 1) return y;
  // The first element stands hole - 1 or less after the place where the window begins.
  const auto d = static_cast<size_t>(from.dim);
  std::vector<PaddingDim> padding(y->dims().size());
  padding[d] = {w.hole - 1, std::max<int64_t>(0, w.length - (access.length - 1) * w.hole - 1),
                w.hole - 1};
  Computation& c = spmd.local();
  Node* spread = hlo::pad(y, fill ? fill : hlo::scalar(c, y->shape.dtype, 0), padding);
  Dims sizes = y->dims();
  sizes[d] = w.length;
  if (w.step % w.hole == 0) {
    const int64_t start = w.hole - 1 - (access.first(0) * w.hole + w.low);
    Dims starts(sizes.size(), 0), limits = spread->dims();
    starts[d] = start;
    limits[d] = start + w.length;
    return hlo::slice(spread, starts, limits, Dims(sizes.size(), 1));
  }
  // (step * t - low - 1) modulo hole, of a number that is not negative.
  const auto number = [&](int64_t v) { return hlo::scalar(c, DType::s32, double(v)); };
  const int64_t shift = (((-w.low - 1) % w.hole) + w.hole) % w.hole;
  Node* at = hlo::binary(Opcode::multiply, spmd.digits_index(from.order, from.digits),
                         number(w.step % w.hole));
  at = hlo::binary(Opcode::remainder, hlo::binary(Opcode::add, at, number(shift)), number(w.hole));
  std::vector<Node*> starts(sizes.size(), number(0));
  starts[d] = at;
  return hlo::dynamic_slice(spread, std::move(starts), sizes);
}

}  // namespace gspmd
