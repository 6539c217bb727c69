// Places of buffers against a look at all that are there.

#include "passes/memory/placed_buffers.h"

#include <catch2/catch.hpp>
#include <random>

using namespace gspmd;

namespace {

int64_t plain_gap(std::vector<PlacedBuffers::Placed> placed, int64_t first, int64_t last,
                  int64_t bytes) {
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.offset < b.offset; });
  int64_t best = -1, best_size = INT64_MAX, end = 0;
  for (const auto& x : placed) {
    if (x.last < first || last < x.first) continue;
    if (x.offset - end >= bytes && x.offset - end < best_size) {
      best = end;
      best_size = x.offset - end;
    }
    end = std::max(end, x.end);
  }
  return best >= 0 ? best : end;
}

}  // namespace

TEST_CASE("placed buffers: the tightest gap is found, whoever lives shortly or long") {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return int64_t(random() % uint32_t(n)); };
  for (const int64_t positions : {40, 3000, 20'000}) {
    PlacedBuffers buffers(positions);
    std::vector<PlacedBuffers::Placed> all;
    int64_t gaps = 0;
    for (int i = 0; i < 3000; ++i) {
      const int64_t first = below(positions);
      const int64_t length = below(10) == 0 ? positions : below(3) == 0 ? 200 : 4;
      const int64_t last = std::min(positions - 1, first + below(length + 1));
      const int64_t bytes = 1 + below(100);
      const int64_t at = buffers.best_gap(first, last, bytes);
      REQUIRE(at == plain_gap(all, first, last, bytes));
      for (const auto& x : all) gaps += x.end > at + bytes && x.first <= last && first <= x.last;
      all.push_back({first, last, at, at + bytes});
      buffers.add(all.back());
    }
    CHECK(gaps > 100);  // some were put below others
  }
}

TEST_CASE("placed buffers: the tightest gap is found where almost all live to the end") {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return int64_t(random() % uint32_t(n)); };
  constexpr int64_t kCount = 4000;
  for (const int64_t positions : {kCount, int64_t{8}}) {  // of one value each, or of many
    PlacedBuffers buffers(positions);
    std::vector<PlacedBuffers::Placed> all;
    int64_t below_others = 0, top = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t first = i * positions / kCount;
      const int64_t last = below(50) == 0 ? first : positions - 1;
      const int64_t bytes = below(20) == 0 ? 32 : 64;
      const int64_t at = buffers.best_gap(first, last, bytes);
      REQUIRE(at == plain_gap(all, first, last, bytes));
      below_others += at < top;
      top = std::max(top, at + bytes);
      all.push_back({first, last, at, at + bytes});
      buffers.add(all.back());
    }
    CHECK(below_others > 30);
  }
}
