#include "runtime/claims.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace gspmd {

TEST_CASE("claims: a worker takes its own pieces from the front, then others' from the end",
          "[claims]") {
  Claims claims(3);
  CHECK(claims.begin(0, 7) == 0);
  CHECK(claims.begin(1, 7) == 3);
  CHECK(claims.begin(2, 7) == 5);
  CHECK(claims.begin(3, 7) == 7);
  CHECK(claims.take(1, 1, 7) == 3);
  CHECK(claims.take(1, 1, 7) == 4);
  CHECK(claims.take(1, 1, 7) == 6);
  CHECK(claims.take(1, 1, 7) == 5);
  CHECK(claims.take(1, 0, 7) == 0);
  CHECK(claims.take(1, 1, 7) == 2);
  CHECK(claims.take(1, 2, 7) == 1);
  for (int w = 0; w < 3; ++w) CHECK(claims.take(1, w, 7) == -1);
  CHECK(claims.take(2, 0, 1) == 0);   // the next round needs no preparing
  CHECK(claims.take(1, 2, 7) == -1);  // who comes late to the first finds nothing
  CHECK(claims.take(2, 2, 1) == -1);
  claims.reset();
  CHECK(claims.take(1, 2, 7) == 5);
}

TEST_CASE("claims: of many rounds without a barrier every piece is taken once", "[claims]") {
  constexpr int kWorkers = 3, kRounds = 2000;
  const auto pieces = [](uint32_t round) { return int64_t(round * 7 % 11); };  // 0 to 10
  Claims claims(kWorkers);
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> taken(kWorkers);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w)
    threads.emplace_back([&, w] {
      for (uint32_t round = 1; round <= kRounds; ++round)
        for (int64_t i = claims.take(round, w, pieces(round)); i >= 0;
             i = claims.take(round, w, pieces(round)))
          taken[size_t(w)].emplace_back(round, i);
    });
  for (std::thread& thread : threads) thread.join();
  std::multiset<std::pair<uint32_t, int64_t>> all, wanted;
  for (const auto& list : taken) all.insert(list.begin(), list.end());
  for (uint32_t round = 1; round <= kRounds; ++round)
    for (int64_t i = 0; i < pieces(round); ++i) wanted.emplace(round, i);
  CHECK(all == wanted);
}

}  // namespace gspmd
