#include "gspmd/base/inline_vector.h"

#include <random>
#include <utility>
#include <vector>

#include "catch2/catch.hpp"

using namespace gspmd;

namespace {

struct Pair {
  int64_t a = 1, b = 2;
  auto operator<=>(const Pair&) const = default;
};
using Pairs = InlineVector<Pair, 2>;

bool same(const Pairs& values, const std::vector<Pair>& expected) {
  return std::equal(values.begin(), values.end(), expected.begin(), expected.end());
}

// One of the things that change a vector, done to both.
void change(std::mt19937& random, Pairs& values, std::vector<Pair>& expected) {
  const auto any = [&](size_t end) { return static_cast<std::ptrdiff_t>(random() % (end + 1)); };
  const Pair pair{static_cast<int64_t>(random() % 9), static_cast<int64_t>(random() % 9)};
  switch (random() % 9) {
    case 0:
      values.push_back(pair), expected.push_back(pair);
      break;
    case 1: {
      const auto at = any(expected.size());
      values.insert(values.begin() + at, pair), expected.insert(expected.begin() + at, pair);
      break;
    }
    case 2: {
      const std::vector<Pair> more(random() % 4, pair);
      const auto at = any(expected.size());
      values.insert(values.begin() + at, more.begin(), more.end());
      expected.insert(expected.begin() + at, more.begin(), more.end());
      break;
    }
    case 3: {
      const auto first = any(expected.size());
      const auto last = first + any(expected.size() - static_cast<size_t>(first));
      values.erase(values.begin() + first, values.begin() + last);
      expected.erase(expected.begin() + first, expected.begin() + last);
      break;
    }
    case 4: {
      const size_t size = random() % 6;
      values.resize(size), expected.resize(size);
      break;
    }
    case 5:
      if (!expected.empty()) values.push_back(values.front()), expected.push_back(expected.front());
      break;
    case 6:
      erase_if(values, [](const Pair& p) { return p.a > 5; });
      std::erase_if(expected, [](const Pair& p) { return p.a > 5; });
      break;
    case 7: {
      const std::vector<Pair> reversed(expected.rbegin(), expected.rend());
      values.assign(reversed.begin(), reversed.end());
      expected = reversed;
      break;
    }
    default:
      values.reserve(random() % 8);
  }
}

}  // namespace

TEST_CASE("inline vector: is what a vector is, whatever is done to it", "[base]") {
  std::mt19937 random(20261125);
  for (int round = 0; round < 300; ++round) {
    Pairs values;
    std::vector<Pair> expected;
    for (int step = 0; step < 30; ++step) {
      change(random, values, expected);
      REQUIRE(same(values, expected));
      Pairs copy = values;
      REQUIRE(copy == values);
      Pairs moved = std::move(copy);
      REQUIRE(same(moved, expected));
      REQUIRE(copy.empty());  // NOLINT(bugprone-use-after-move): it says so
      copy = moved;
      moved = std::move(copy);
      REQUIRE(same(moved, expected));
      if (!moved.empty()) {
        moved.back().b += 1;
        REQUIRE(values < moved);
        REQUIRE(moved.front() == (moved.size() == 1 ? moved.back() : expected.front()));
      }
    }
  }
}

TEST_CASE("inline vector: few elements need no memory, and stay where they are", "[base]") {
  Pairs values{{1, 2}, {3, 4}};
  const void* const self = &values;
  CHECK(static_cast<const void*>(values.data()) == self);
  values.push_back({5, 6});
  CHECK(static_cast<const void*>(values.data()) != self);
  CHECK(values == Pairs{{1, 2}, {3, 4}, {5, 6}});
  CHECK(Pairs(3) == Pairs{{1, 2}, {1, 2}, {1, 2}});
}
