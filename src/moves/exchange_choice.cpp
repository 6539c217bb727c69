#include "moves/exchange_choice.h"

#include <algorithm>
#include <map>

namespace gspmd {
namespace {

// Transfers list pairs and tables of tiles: beyond so many tiles only those do that are no stairs,
// and beyond kManyPairs only where neighbours are far apart, or all else is a gather of the dim.
constexpr int64_t kFewTiles = 64;
constexpr int64_t kManyPairs = 4096;
constexpr int64_t kMostPairs = int64_t(1) << 18;
constexpr int64_t kManyHops = 16;

}  // namespace

Access undilated(const WindowAccess& w) {
  const int64_t end = w.end - w.low;
  Access access{w.step, w.hole - 1 - w.low, w.hole, ceil_div(w.length, w.hole),
                end <= 0 ? 0 : ceil_div(end, w.hole)};
  // Windows that begin alike in the holes begin with the same fill: it holds no element.
  if (w.step % w.hole == 0) {
    const int64_t fill = access.first(0) * w.hole + w.low;
    access.length = std::max<int64_t>(1, ceil_div(w.length - fill, w.hole));
  }
  return access;
}

namespace {

ExchangeChoice cheapest_exchange(const HeldDim& held, const Access& access) {
  ExchangeChoice choice;
  choice.halo = plan_halo(held, access);
  if (choice.halo.empty()) return choice;
  const int64_t gathered = (held.tiles - 1) * held.shard;
  const int64_t pieces = held.tiles * (access.length / held.shard + 2);
  const int64_t hops = choice.halo.hop_max - choice.halo.hop_min;
  const bool few = choice.halo.received < gathered && hops <= kManyHops;
  // One permute does as well as a gather.
  const auto is_best = [&](int64_t received, size_t rounds) {
    const bool one = rounds == 1 && choice.halo.received >= gathered;
    const int64_t other = std::min(choice.halo.received, gathered);
    return received < other || (one && received == other);
  };
  std::optional<StairPlan> stairs;
  if (held.tiles > kFewTiles) stairs = plan_stairs(held, access);
  if (stairs && is_best(stairs->received, stairs->rounds.size())) {
    choice.kind = ExchangeKind::stairs;
    choice.received = stairs->received;
    choice.stairs = std::move(*stairs);
    return choice;
  }
  if (!stairs && held.tiles <= (few ? kManyPairs : kMostPairs) && pieces <= kMostPairs) {
    choice.transfer = plan_transfer(held, access);
    if (is_best(choice.transfer.received, choice.transfer.rounds.size())) {
      choice.kind = ExchangeKind::transfer;
      choice.received = choice.transfer.received;
      return choice;
    }
    choice.transfer = {};
  }
  const bool many = hops > 1;  // permutes; a gather is one step
  const bool near = hops <= 4 * kManyHops && choice.halo.received < gathered + (many ? 0 : 1);
  choice.kind = near ? ExchangeKind::neighbours : ExchangeKind::gather;
  choice.received = near ? choice.halo.received : gathered;
  return choice;
}

}  // namespace

ExchangeChoice choose_exchange(const HeldDim& held, const Access& access) {
  // The layers of a model ask the same again and again, and so does the search for a reshard.
  static thread_local std::map<Dims, ExchangeChoice> known;
  constexpr size_t kMostKnown = 1000;
  Dims key{held.size,     held.tiles,     held.shard,    access.step,
           access.offset, access.divisor, access.length, access.end};
  if (access.until) key.push_back(*access.until);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() >= kMostKnown) known.clear();
  return known.emplace(key, cheapest_exchange(held, access)).first->second;
}

int64_t ExchangeChoice::collectives() const {
  if (kind == ExchangeKind::transfer) return std::ssize(transfer.rounds);
  if (kind == ExchangeKind::stairs) return std::ssize(stairs.rounds);
  if (kind != ExchangeKind::neighbours) return kind == ExchangeKind::gather ? 1 : 0;
  const bool own = halo.hop_min <= 0 && halo.hop_max >= 0;
  return halo.hop_max - halo.hop_min + (own ? 0 : 1);
}

std::optional<JoinPlan> choose_join(const Join& join, int64_t received, int64_t collectives) {
  const Access access{join.result.shard, 0, 1, join.result.shard};
  if (join.order->count > kMostPairs || join.result.tiles > kManyPairs ||
      !is_addressable(join.result, access))
    return std::nullopt;
  for (const HeldDim& source : join.sources)
    if (!is_addressable(source, access)) return std::nullopt;
  std::optional<JoinPlan> plan = plan_join(join.sources, join.parts, join.result.shard);
  if (!plan || plan->received > received) return std::nullopt;
  if (plan->received == received && std::ssize(plan->rounds) >= collectives) return std::nullopt;
  return plan;
}

std::optional<JoinPlan> choose_split(const HeldDim& held, const std::vector<Interval>& parts,
                                     int64_t num_devices) {
  int64_t received = 0, collectives = 0, row = 0;
  if (num_devices > kMostPairs || held.tiles > kManyPairs) return std::nullopt;
  for (const Interval& part : parts) {
    const int64_t own = ceil_div(part.size(), held.tiles);
    const Access access{own, part.begin, 1, own, part.end};
    if (!is_addressable(held, access)) return std::nullopt;
    const ExchangeChoice alone = choose_exchange(held, access);
    received += alone.received;
    collectives += alone.collectives();
    row += own;
  }
  const HeldDim rows{row * held.tiles, held.tiles, row};
  if (!is_addressable(rows, Access{row, 0, 1, row})) return std::nullopt;
  std::vector<JoinedPart> pieces;
  for (int64_t t = 0; t < held.tiles; ++t) {
    int64_t at = t * row;
    for (const Interval& part : parts) {
      const int64_t own = ceil_div(part.size(), held.tiles), begin = part.begin + t * own;
      const Interval elements{std::min(begin, part.end), std::min(begin + own, part.end)};
      if (elements.size() > 0) pieces.push_back({0, elements, at});
      at += own;
    }
  }
  std::optional<JoinPlan> plan = plan_join({held}, pieces, row);
  if (!plan || plan->received > received) return std::nullopt;
  if (plan->received == received && std::ssize(plan->rounds) >= collectives) return std::nullopt;
  return plan;
}

bool is_addressable(const HeldDim& dim, const WindowAccess& w) {
  constexpr int64_t kMost = int64_t(1) << 28;
  const auto small = [](int64_t x) { return x > -kMost && x < kMost; };
  return w.length > 0 && small(w.low) && small(w.hole) && small(w.step) && small(w.length) &&
         small(w.step * dim.tiles) && is_addressable(dim, undilated(w));
}

}  // namespace gspmd
