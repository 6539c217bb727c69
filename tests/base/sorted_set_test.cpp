#include "base/sorted_set.h"

#include <random>
#include <set>

#include "catch2/catch.hpp"

using namespace gspmd;

TEST_CASE("sorted set: agrees with std::set whatever comes in which order", "[base]") {
  std::mt19937 random(20261130);
  for (const uint32_t most : {4U, 40U, 4000U}) {
    std::set<int64_t> expected;
    SortedSet<int64_t> set;
    for (int i = 0; i < 2000; ++i) {
      const auto number = static_cast<int64_t>(random() % most);
      if (random() % 3 == 0) {
        CHECK(set.erase(number) == expected.erase(number));
      } else {
        const auto [at, is_new] = set.insert(number);
        CHECK(*at == number);
        CHECK(is_new == expected.insert(number).second);
      }
      REQUIRE(set.contains(number) == expected.contains(number));
    }
    REQUIRE(set.size() == expected.size());
    CHECK(std::equal(set.begin(), set.end(), expected.begin(), expected.end()));
    CHECK(*set.rbegin() == *expected.rbegin());
    CHECK(set == SortedSet<int64_t>(expected.rbegin(), expected.rend()));
    set.clear();
    CHECK(set.empty());
  }
}
