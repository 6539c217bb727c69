// Plans of exchanges against brute force: who needs what, element by element.

#include "moves/halo.h"

#include <catch2/catch.hpp>
#include <set>

using namespace gspmd;

namespace {

struct Random {
  uint64_t state;
  int64_t below(int64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  }
};

struct Window {  // of one dim
  int64_t size, stride, pad_low, pad_high, base_dilation, window_dilation;
};

// Elements of the dim that tile t reads, position by position of its part of the result.
std::set<int64_t> read_by(const Window& w, int64_t n, int64_t part, int64_t tile) {
  std::set<int64_t> result;
  for (int64_t p = tile * part; p < (tile + 1) * part; ++p)
    for (int64_t i = 0; i < w.size; ++i) {
      const int64_t at = p * w.stride - w.pad_low + i * w.window_dilation;
      if (at >= 0 && at % w.base_dilation == 0 && at / w.base_dilation < n)
        result.insert(at / w.base_dilation);
    }
  return result;
}

int64_t positions(const Window& w, int64_t n) {
  const int64_t extent = (n - 1) * w.base_dilation + 1 + w.pad_low + w.pad_high;
  const int64_t reach = (w.size - 1) * w.window_dilation + 1;
  return extent < reach ? 0 : (extent - reach) / w.stride + 1;
}

void check_halo(const HeldDim& dim, const Access& access, int64_t tile,
                const std::set<int64_t>& reads) {
  const HaloPlan plan = plan_halo(dim, access);
  std::set<int64_t> brought;
  for (int64_t h = plan.hop_min; h <= plan.hop_max; ++h) {
    const Interval piece = plan.piece(h, dim.shard);
    REQUIRE(piece.begin >= 0);
    REQUIRE(piece.end <= dim.shard);
    if (tile + h < 0 || tile + h >= dim.tiles) continue;
    for (int64_t i = piece.begin; i < piece.end; ++i) brought.insert((tile + h) * dim.shard + i);
  }
  const int64_t start = plan.empty() ? 0 : access.first(tile) - plan.base(tile, dim.shard);
  for (const int64_t i : reads) {
    REQUIRE(brought.count(i) == 1);
    REQUIRE(i >= access.first(tile));
    REQUIRE(i < access.first(tile) + access.length);
  }
  if (reads.empty()) return;
  REQUIRE(start + plan.low_pad >= 0);
  REQUIRE(start + access.length <= plan.buffer(dim.shard) + plan.high_pad);
  if (plan.fixed_start) REQUIRE(*plan.fixed_start == start + plan.low_pad);
}

void check_transfer(const HeldDim& dim, const Access& access, int64_t tile,
                    const std::set<int64_t>& reads) {
  const TransferPlan plan = plan_transfer(dim, access);
  std::set<int64_t> got;
  const Interval own = dim.held(tile);
  for (int64_t i = own.begin; i < own.end; ++i) got.insert(i);
  for (const TransferRound& round : plan.rounds) {
    std::set<int64_t> sources, targets;
    for (const auto& [from, to] : round.pairs) {
      REQUIRE(sources.insert(from).second);
      REQUIRE(targets.insert(to).second);
      if (to != tile) continue;
      const Interval use = round.use[static_cast<size_t>(to)];
      const int64_t begin = round.begin[static_cast<size_t>(to)];
      REQUIRE(begin == from * dim.shard + round.send[static_cast<size_t>(from)]);
      REQUIRE(begin <= use.begin);
      REQUIRE(use.end <= begin + round.size);
      REQUIRE(round.send[static_cast<size_t>(from)] + round.size <= dim.shard);
      for (int64_t i = use.begin; i < use.end; ++i) got.insert(i);
    }
  }
  for (const int64_t i : reads) REQUIRE(got.count(i) == 1);
}

}  // namespace

TEST_CASE("exchanges bring what windows read, for six thousand windows", "[halo]") {
  Random random{7};
  int64_t configurations = 0;
  while (configurations < 6000) {
    const Window w{1 + random.below(4), 1 + random.below(3), random.below(7) - 2,
                   random.below(7) - 2, 1 + random.below(3), 1 + random.below(3)};
    const int64_t n = 1 + random.below(25), tiles = 2 + random.below(7);
    const int64_t results = positions(w, n);
    if (results <= 0) continue;
    ++configurations;
    const int64_t part = ceil_div(results, tiles);
    const int64_t reach = (w.size - 1) * w.window_dilation + 1;
    const int64_t length = w.stride * (part - 1) + reach;
    const HeldDim dim{n, tiles, ceil_div(n, tiles)};
    const Access access{w.stride * part, w.base_dilation - 1 - w.pad_low, w.base_dilation,
                        ceil_div(length, w.base_dilation)};
    REQUIRE(is_addressable(dim, access));
    for (int64_t t = 0; t < tiles; ++t) {
      const std::set<int64_t> reads = read_by(w, n, part, t);
      check_halo(dim, access, t, reads);
      check_transfer(dim, access, t, reads);
    }
  }
}

TEST_CASE("the halo is the longest that some tile lacks on a side, and nothing where all is there",
          "[halo]") {
  Random random{11};
  for (int64_t n = 0; n < 3000; ++n) {
    const int64_t tiles = 2 + random.below(7), shard = 1 + random.below(6);
    const HeldDim dim{tiles * shard - random.below(shard), tiles, shard};
    const Access access{shard, random.below(3 * shard) - 2 * shard, 1, 1 + random.below(3 * shard)};
    int64_t left = 0, right = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t begin = std::max<int64_t>(0, access.first(t));
      const int64_t end = std::min(dim.size, access.first(t) + access.length);
      if (end <= begin) continue;
      if (begin < t * shard) left = std::max(left, std::min(end, t * shard) - begin);
      if (end > (t + 1) * shard) right = std::max(right, end - std::max(begin, (t + 1) * shard));
    }
    INFO(tiles << " tiles of " << shard << " for " << dim.size << ", from " << access.offset
               << ", length " << access.length);
    CHECK(plan_halo(dim, access).received == left + right);
  }
}

TEST_CASE("a plan for very many tiles is that for few", "[halo]") {
  for (const Access& access : {Access{4, -3, 1, 9}, Access{8, 5, 2, 7}, Access{4, 0, 1, 4}}) {
    const HaloPlan few = plan_halo({158, 40, 4}, access);
    const HaloPlan many = plan_halo({4 * 1'000'000 - 2, 1'000'000, 4}, access);
    CHECK(few.hop_min == many.hop_min);
    CHECK(few.hop_max == many.hop_max);
    CHECK(few.cut_begin == many.cut_begin);
    CHECK(few.cut_end == many.cut_end);
    CHECK(few.fixed_start == many.fixed_start);
    CHECK(few.received == many.received);
  }
}

TEST_CASE("a reversal is one round of whole shards", "[halo]") {
  const TransferPlan plan = plan_transfer({16, 4, 4}, {-4, 12, 1, 4});
  REQUIRE(plan.rounds.size() == 1);
  CHECK(plan.rounds[0].size == 4);
  CHECK(plan.rounds[0].pairs ==
        std::vector<std::pair<int64_t, int64_t>>{{3, 0}, {2, 1}, {1, 2}, {0, 3}});
  CHECK(plan.received == 4);
}

TEST_CASE("positions beyond what s32 holds are told", "[halo]") {
  CHECK(is_addressable({1000, 4, 250}, {250, -3, 1, 256}));
  CHECK_FALSE(is_addressable({int64_t(1) << 40, 4, int64_t(1) << 38}, {250, -3, 1, 256}));
  CHECK_FALSE(is_addressable({1000, 4, 250}, {int64_t(1) << 62, 0, 1, 1}));
  CHECK_FALSE(is_addressable({0, 4, 0}, {0, 0, 1, 1}));
}

TEST_CASE("joined parts: every tile is sent what it lacks, in as few rounds as it can be",
          "[halo]") {
  Random random{5};
  int64_t least_rounds = 0, rounds = 0;
  for (int64_t n = 0; n < 3000; ++n) {
    const int64_t tiles = 2 + random.below(7);
    std::vector<HeldDim> sources;
    std::vector<JoinedPart> parts;
    int64_t total = 0, in_row = 0;
    for (int64_t i = 0; i < 1 + random.below(4); ++i) {
      const int64_t size = 1 + random.below(20);
      sources.push_back({size, tiles, ceil_div(size, tiles)});
      in_row += sources.back().shard;
    }
    for (int64_t i = 0; i < 1 + random.below(4); ++i) {
      const int64_t source = random.below(std::ssize(sources));
      const int64_t size = sources[static_cast<size_t>(source)].size;
      const int64_t begin = random.below(size), end = begin + 1 + random.below(size - begin);
      parts.push_back({source, {begin, end}, total});
      total += end - begin;
    }
    const int64_t shard = ceil_div(total, tiles);
    const auto plan = plan_join(sources, parts, shard);
    if (!plan) continue;
    // Elements by position of the result: which source, which element.
    std::vector<std::pair<int64_t, int64_t>> element;
    for (const JoinedPart& part : parts)
      for (int64_t e = part.elements.begin; e < part.elements.end; ++e)
        element.emplace_back(part.source, e);
    const auto holder = [&](int64_t at) {
      const auto [source, e] = element[static_cast<size_t>(at)];
      return e / sources[static_cast<size_t>(source)].shard;
    };
    std::vector<std::set<int64_t>> got(static_cast<size_t>(tiles));
    for (const TransferRound& round : plan->rounds) {
      std::set<int64_t> senders, receivers;
      for (const auto& [from, to] : round.pairs) {
        REQUIRE(senders.insert(from).second);
        REQUIRE(receivers.insert(to).second);
        const int64_t send = round.send[static_cast<size_t>(from)];
        REQUIRE(send >= 0);
        REQUIRE(send + round.size <= in_row);
        const Interval use = round.use[static_cast<size_t>(to)];
        REQUIRE(use.size() > 0);
        for (int64_t at = use.begin; at < use.end; ++at) {
          int64_t place = send + at - round.begin[static_cast<size_t>(to)];  // in the row
          REQUIRE(place < send + round.size);
          size_t source = 0;
          for (; place >= sources[source].shard; ++source) place -= sources[source].shard;
          REQUIRE(std::pair(int64_t(source), place + from * sources[source].shard) ==
                  element[static_cast<size_t>(at)]);
          REQUIRE(got[static_cast<size_t>(to)].insert(at).second);
        }
      }
    }
    for (int64_t t = 0; t < tiles; ++t)
      for (int64_t at = t * shard; at < std::min(total, (t + 1) * shard); ++at)
        REQUIRE(got[static_cast<size_t>(t)].count(at) == (holder(at) == t ? 0u : 1u));
    // Nobody can receive in fewer rounds than there are others that have what it lacks.
    int64_t most = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      std::set<int64_t> from;
      for (const int64_t at : got[static_cast<size_t>(t)]) from.insert(holder(at));
      most = std::max(most, std::ssize(from));
    }
    least_rounds += most;
    rounds += std::ssize(plan->rounds);
  }
  CHECK(rounds < 2 * least_rounds);
}
