#include "runtime/claims.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "runtime/offers.h"

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

// The owner waits for what others took; helpers may look at any moment, also between two works.
TEST_CASE("offers: every part of every work is done once, whoever takes it", "[claims]") {
  constexpr int64_t kWorks = 2000, kParts = 5;
  OfferedParts offer;
  std::vector<std::atomic<int>> done(kWorks * kParts);
  std::atomic<bool> ended{false};
  const auto run = [&](int64_t part) {  // the work's device is its number
    ++done[static_cast<size_t>(offer.work().device * kParts + part)];
    offer.done();
  };
  std::vector<std::thread> helpers;
  for (int i = 0; i < 2; ++i)
    helpers.emplace_back([&] {
      while (!ended) {
        const int64_t part = offer.take();
        if (part >= 0)
          run(part);
        else
          std::this_thread::yield();
      }
    });
  for (int64_t work = 0; work < kWorks; ++work) {
    OfferedParts::Work next;
    next.device = work;
    offer.put_up(next, kParts);
    for (int64_t part = offer.take(); part >= 0; part = offer.take()) run(part);
    while (offer.parts_done() < kParts) std::this_thread::yield();
  }
  ended = true;
  for (std::thread& helper : helpers) helper.join();
  CHECK(std::all_of(done.begin(), done.end(), [](const auto& n) { return n == 1; }));
}

}  // namespace gspmd
