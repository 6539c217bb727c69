#include "moves/price.h"

#include <catch2/catch.hpp>
#include <limits>

namespace gspmd {
namespace {

// What each device of a ring sends, counted step by step: shares of one value go from device to
// device until all that have to be everywhere are.
int64_t counted_on_ring(int64_t bytes, int64_t group, int64_t rounds) {
  int64_t sent = 0;
  for (int64_t round = 0; round < rounds; ++round)
    for (int64_t hop = 1; hop < group; ++hop) sent += bytes / group;
  return sent;
}

}  // namespace

TEST_CASE("the price of a collective is what a device sends on a ring", "[price]") {
  for (const int64_t group : {1, 2, 3, 4, 8}) {
    const int64_t whole = group * 24;
    CHECK(sent_bytes(ReshardKind::all_gather, whole / group, whole, group) ==
          counted_on_ring(whole, group, 1));
    CHECK(sent_bytes(ReshardKind::reduce_scatter, whole, whole / group, group) ==
          counted_on_ring(whole, group, 1));
    CHECK(sent_bytes(ReshardKind::all_to_all, whole, whole, group) ==
          counted_on_ring(whole, group, 1));
    CHECK(sent_bytes(ReshardKind::all_reduce, whole, whole, group) ==
          counted_on_ring(whole, group, 2));
    CHECK(sent_bytes(ReshardKind::collective_permute, whole, whole, group) == whole);
    CHECK(sent_bytes(ReshardKind::dynamic_slice, whole, whole / group, group) == 0);
    CHECK(sent_bytes(ReshardKind::all_reduce, double(whole), double(whole), double(group)) ==
          Approx(double(counted_on_ring(whole, group, 2))));
  }
}

TEST_CASE("prices are rounded up, and what is too much to count stays so", "[price]") {
  const auto price = [](ReshardKind kind, int64_t before, int64_t after, int64_t group) {
    return sent_bytes(kind, before, after, group);
  };
  CHECK(price(ReshardKind::all_gather, 1, 5, 4) == 4);    // 3.75
  CHECK(price(ReshardKind::all_reduce, 5, 5, 4) == 8);    // 7.5
  CHECK(price(ReshardKind::all_to_all, 10, 10, 3) == 7);  // 6.67
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const ReshardKind kind : {ReshardKind::all_gather, ReshardKind::all_reduce,
                                 ReshardKind::all_to_all, ReshardKind::collective_permute})
    CHECK(price(kind, kMost, kMost, 4) == kMost);
  CHECK(price(ReshardKind::all_reduce, kMost - 1, kMost - 1, 4) == kMost);
}

}  // namespace gspmd
