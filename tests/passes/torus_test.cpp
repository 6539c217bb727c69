// Times of collectives on a pod, against links counted one by one and against what was published.

#include "gspmd/passes/explain/torus.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

// Seconds are bytes over the busiest link.
Torus only_links(std::vector<TorusDim> dims) { return {std::move(dims), 1, 0}; }

// The bytes over the busiest link of a grid of rows and columns if each device sends `parts` bytes,
// one to each device: along the row first, both ways where they are as long.
double busiest_link(const TorusDim& rows, const TorusDim& columns) {
  std::map<std::tuple<int64_t, int64_t, char>, double> links;
  const auto go = [&](int64_t from, int64_t to, const TorusDim& dim, double bytes, auto&& link) {
    const int64_t ahead = (to - from + dim.size) % dim.size, back = dim.size - ahead;
    const auto walk = [&](int64_t steps, int64_t by, double part) {
      for (int64_t at = from; steps > 0; --steps, at = (at + by + dim.size) % dim.size)
        link(at, by > 0) += part;
    };
    if (!dim.wraps) return walk(std::abs(to - from), to > from ? 1 : -1, bytes);
    if (ahead == 0) return;
    if (ahead == back) walk(ahead, 1, bytes / 2), walk(back, -1, bytes / 2);
    if (ahead < back) walk(ahead, 1, bytes);
    if (ahead > back) walk(back, -1, bytes);
  };
  for (int64_t a = 0; a < rows.size * columns.size; ++a)
    for (int64_t b = 0; b < rows.size * columns.size; ++b) {
      const int64_t row = a / columns.size, column = b % columns.size;
      go(a % columns.size, column, columns, 1, [&](int64_t at, bool up) -> double& {
        return links[{row, at, up ? 'r' : 'l'}];
      });
      go(row, b / columns.size, rows, 1, [&](int64_t at, bool up) -> double& {
        return links[{at, column, up ? 'd' : 'u'}];
      });
    }
  double most = 0;
  for (const auto& [link, bytes] : links) most = std::max(most, bytes);
  return most;
}

TEST_CASE("torus: an all-to-all takes what its busiest link does") {
  for (const int64_t r : {1, 2, 3, 4, 5, 8})
    for (const int64_t c : {1, 2, 3, 5, 6})
      for (const bool wraps : {false, true}) {
        // Two devices in a ring have one link between them here.
        const TorusDim rows{r, wraps && r > 2}, columns{c, wraps && c > 2};
        INFO(r << " x " << c << (wraps ? ", wraps" : ""));
        CHECK(all_to_all_seconds(double(r * c), only_links({rows, columns})) ==
              Approx(busiest_link(rows, columns)));
      }
}

TEST_CASE("torus: an all-reduce dim after dim sends the bytes of one ring") {
  for (const auto& [r, c] : {std::pair<int64_t, int64_t>{4, 4}, {3, 8}, {5, 3}, {16, 32}}) {
    const Torus torus = only_links({{r, true}, {c, true}});
    const double parts = 2 * double(r * c - 1) / double(r * c);
    CHECK(ring_all_reduce_seconds(1, torus) == Approx(parts / 2));
    CHECK(hierarchical_all_reduce_seconds(1, torus) == Approx(parts / 2));
  }
  // Along the first dim goes 1/32 of the bytes.
  const double x = hierarchical_all_reduce_seconds(1, only_links({{128, false}, {32, true}})) -
                   hierarchical_all_reduce_seconds(1, only_links({{32, true}}));
  CHECK(x == Approx(2 * (127.0 / 128) / 32));
}

TEST_CASE("torus: small sums take a tenth of a ring's time on 128 x 32 devices") {
  const Torus multipod{{{128, false}, {32, true}}};
  for (const double bytes : {4.0, 4096.0, 64e3})
    CHECK(ring_all_reduce_seconds(bytes, multipod) >
          10 * hierarchical_all_reduce_seconds(bytes, multipod));
}

TEST_CASE("torus: from 16 to 2048 cores an all-to-all grows as published, a sum does not") {
  // arXiv:2006.16668, 5.3: 9 times for 8 and 32 MB. A chip has two cores; a pod is 32 x 32 chips.
  const Torus few{{{2, false}, {4, true}}}, pod{{{32, true}, {32, true}}};
  for (const double megabytes : {8.0, 32.0}) {
    const double bytes = 2 * megabytes * 1e6;
    const double ratio = all_to_all_seconds(bytes, pod) / all_to_all_seconds(bytes, few);
    CHECK(ratio > 0.7 * 9);
    CHECK(ratio < 1.3 * 9);
  }
  const double sums =
      hierarchical_all_reduce_seconds(32e6, pod) / hierarchical_all_reduce_seconds(32e6, few);
  CHECK(sums > 0.8 / 1.2);  // both within a fifth of their middle
  CHECK(sums < 1.2 / 0.8);
}

TEST_CASE("torus: gathering overlaps with sending but for a chunk") {
  for (const double gather : {0.1, 1.0, 3.0})
    for (const int64_t chunks : {1, 2, 7, 100}) {
      // Chunk by chunk: the network takes the next one when it and the chunk are ready.
      double gathered = 0, sent = 0;
      for (int64_t i = 0; i < chunks; ++i) {
        gathered += gather / double(chunks);
        sent = std::max(sent, gathered) + 1.0 / double(chunks);
      }
      CHECK(overlapped_seconds(gather, 1, chunks) == Approx(sent));
      CHECK(sent <= (std::max(gather, 1.0) + std::min(gather, 1.0) / double(chunks)) * 1.000001);
    }
}

TEST_CASE("torus: wrong sizes and rates are told") {
  CHECK_THROWS_WITH(all_to_all_seconds(1, {{{0, true}}}),
                    Catch::Contains("torus: a dim has 0 devices; give 1 or more"));
  CHECK_THROWS_WITH(ring_all_reduce_seconds(1, {{{4, true}}, 0}),
                    Catch::Contains("links of 0 bytes per second"));
  CHECK_THROWS_WITH(overlapped_seconds(1, 1, 0), Catch::Contains("0 chunks"));
}

}  // namespace
}  // namespace gspmd
