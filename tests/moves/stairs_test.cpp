// Rounds of stairs against brute force: who needs what, element by element.

#include "moves/stairs.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

using namespace gspmd;

namespace {

// All pairs {source, target}, tile by tile.
std::map<std::pair<int64_t, int64_t>, Interval> needs(const HeldDim& dim, const Access& access) {
  std::map<std::pair<int64_t, int64_t>, Interval> result;
  for (int64_t t = 0; t < dim.tiles; ++t)
    for (int64_t s = 0; s < dim.tiles; ++s) {
      const int64_t first = access.step * t + access.offset;
      const Interval need =
          intersect({first, first + access.length}, {0, std::min(dim.size, access.end)});
      const Interval part = intersect(need, dim.held(s));
      if (part.size() > 0) result[{s, t}] = part;
    }
  return result;
}

}  // namespace

TEST_CASE("stairs: every need is met once, and nobody sends or receives twice in a round") {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return int64_t(random() % uint32_t(n)); };
  int64_t planned = 0, backwards = 0, several = 0;
  for (int i = 0; i < 20'000; ++i) {
    HeldDim dim{0, 1 + below(20), 1 + below(9)};
    dim.size = std::max<int64_t>(1, dim.tiles * dim.shard - below(3 * dim.shard));
    Access access{below(19) - 9, below(60) - 20, 1, 1 + below(12)};
    if (below(4) == 0) access.end = below(dim.size + 5);
    const auto plan = plan_stairs(dim, access);
    if (!plan) continue;
    ++planned;
    backwards += plan->backwards;
    several += plan->rounds.size() > 1;
    auto left = needs(dim, access);
    for (const auto& [pair, part] : left)
      if (pair.first == pair.second) REQUIRE(plan->own);
    std::erase_if(left, [](const auto& need) { return need.first.first == need.first.second; });
    int64_t received = 0;
    for (const StairPlan::Round& round : plan->rounds) {
      received += round.size;
      std::set<int64_t> targets;
      bool full = false;
      for (int64_t s = 0; s < dim.tiles; ++s) {
        const int64_t t = plan->target_of(s, round.colour);
        if (t < 0) continue;
        REQUIRE(targets.insert(t).second);
        const auto need = left.find({s, t});
        REQUIRE(need != left.end());
        const Interval part = need->second;
        REQUIRE(part.size() <= round.size);
        full = full || part.size() == round.size;
        const int64_t begin = std::min(part.begin, (s + 1) * dim.shard - round.size);
        REQUIRE(begin >= s * dim.shard);
        const int64_t ahead = access.step * t + access.offset - begin;
        REQUIRE(ahead >= round.least_ahead);
        REQUIRE(ahead <= round.greatest_ahead);
        left.erase(need);
      }
      REQUIRE(full);
    }
    REQUIRE(left.empty());
    REQUIRE(received == plan->received);
  }
  CHECK(planned > 8000);
  CHECK(backwards > 2000);
  CHECK(several > 2000);
}
