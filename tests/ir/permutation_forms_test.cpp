// Permutations without a list against the pairs that they stand for.

#include <algorithm>
#include <catch2/catch.hpp>

#include "gspmd/ir/attributes.h"
#include "gspmd/ir/print.h"

using namespace gspmd;

namespace {

Pairs::List listed(const Permutation& permutation) {
  const Pairs pairs = materialize(permutation);
  return {pairs.begin(), pairs.end()};
}

// Tile k sends to the one three further on, where there is one.
class ThreeOn final : public TileRule {
 public:
  int64_t target(int64_t tile) const override { return tile + 3 < 6 ? tile + 3 : -1; }
};

}  // namespace

TEST_CASE("permutation: tiles send alike for every choice of the other digits") {
  const Digits digits{{3, 4}, {2, 1}};  // of 12 devices; tile = 2 (r / 4) + r % 2
  const Pairs tiles{{0, 5}, {4, 1}};
  Pairs::List wanted;
  for (int64_t r = 0; r < 12; ++r)
    for (const auto& [source, target] : tiles)
      if (2 * (r / 4) + r % 2 == source)
        wanted.emplace_back(r, 4 * (target / 2) + r / 2 % 2 * 2 + target % 2);
  CHECK(listed(tiles_along(iota_order(12), digits, tiles)) == wanted);
  const DeviceOrder back = stepped_order(11, {{12, -1}});
  for (auto& [source, target] : wanted) {
    source = 11 - source;
    target = 11 - target;
  }
  std::sort(wanted.begin(), wanted.end());
  CHECK(listed(tiles_along(back, digits, tiles)) == wanted);
  CHECK(is_empty(tiles_along(back, digits, Pairs{})));
  CHECK_FALSE(is_empty(tiles_along(back, digits, tiles)));
}

TEST_CASE("permutation: a rule stands for its pairs, an order for another rank by rank") {
  const auto rule = std::make_shared<const ThreeOn>();
  const Permutation by_rule = tiles_along(iota_order(6), {{6, 1}}, rule);
  CHECK(listed(by_rule) == Pairs::List{{0, 3}, {1, 4}, {2, 5}});
  CHECK(by_rule == tiles_along(iota_order(6), {{6, 1}}, rule));
  Permutation from_order;
  from_order.order = list_order({3, 1, 0, 2});
  from_order.targets = iota_order(4);
  CHECK(listed(from_order) == Pairs::List{{0, 2}, {1, 1}, {2, 3}, {3, 0}});
  CHECK_FALSE(is_empty(from_order));
}

TEST_CASE("permutation: pairs are shared until one of the owners changes them") {
  Pairs a{{0, 1}, {1, 0}};
  Pairs b = a;
  CHECK(&a.list() == &b.list());
  b.edit().emplace_back(2, 3);
  CHECK(a.size() == 2);
  CHECK(b.size() == 3);
  CHECK_FALSE(a == b);
}
