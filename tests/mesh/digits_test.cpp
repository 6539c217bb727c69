#include "gspmd/mesh/digits.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/mesh/replica_groups.h"

using namespace gspmd;
using Catch::Matchers::Contains;

namespace {

// Every list of at most `longest` disjoint digits over `count`, made from ordered selections of the
// atoms between consecutive elements of every chain of divisors.
void extend(const Digits& atoms, Digits chosen, size_t longest, std::set<Digits>& out) {
  out.insert(canonical(chosen));
  if (chosen.size() == longest) return;
  for (const Digit& atom : atoms) {
    if (std::find(chosen.begin(), chosen.end(), atom) != chosen.end()) continue;
    Digits more = chosen;
    more.push_back(atom);
    extend(atoms, more, longest, out);
  }
}

void chains(int64_t count, int64_t from, Digits atoms, std::set<Digits>& out) {
  if (from == count) return extend(atoms, {}, 3, out);
  for (int64_t next = from * 2; next <= count; next += from) {
    if (count % next != 0) continue;
    Digits more = atoms;
    more.push_back({next / from, from});
    chains(count, next, more, out);
  }
}

std::vector<Digits> all_lists(int64_t count) {
  std::set<Digits> out;
  chains(count, 1, {}, out);
  return {out.begin(), out.end()};
}

std::vector<int64_t> tile_table(const Digits& digits, int64_t count) {
  std::vector<int64_t> table;
  for (int64_t r = 0; r < count; ++r) table.push_back(tile_index(digits, r));
  return table;
}

// Ranks that agree in `digits` form the blocks of a partition; the blocks as first members.
std::vector<int64_t> blocks(const std::vector<int64_t>& table) {
  std::map<int64_t, int64_t> first;
  std::vector<int64_t> out;
  for (size_t r = 0; r < table.size(); ++r)
    out.push_back(first.emplace(table[r], int64_t(r)).first->second);
  return out;
}

// Whether ranks that agree in `a` agree in `b`.
bool determines(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::map<int64_t, int64_t> value;
  for (size_t r = 0; r < a.size(); ++r)
    if (value.emplace(a[r], b[r]).first->second != b[r]) return false;
  return true;
}

}  // namespace

TEST_CASE("digits: canonical lists are equal exactly where they tile ranks equally", "[digits]") {
  for (const int64_t count : {8, 12}) {
    std::map<std::vector<int64_t>, Digits> seen;
    for (const Digits& digits : all_lists(count)) {
      const auto [it, fresh] = seen.emplace(tile_table(digits, count), digits);
      INFO("count " << count);
      CHECK(fresh);
    }
    CHECK(seen.size() > 14);
  }
}

TEST_CASE("digits: canonical joins neighbours and drops ones", "[digits]") {
  CHECK(canonical({{2, 4}, {1, 7}, {2, 2}, {2, 1}}) == Digits{{8, 1}});
  CHECK(canonical({{2, 1}, {2, 2}}) == Digits{{2, 1}, {2, 2}});
  CHECK(canonical({{1, 1}}).empty());
  CHECK(tile_count({{2, 4}, {3, 1}}) == 6);
}

TEST_CASE("digits: atoms are the common refinement, or none without a chain", "[digits]") {
  const Digits a{{4, 2}};
  const Digits b{{2, 4}};
  const Digits both[] = {a, b};
  CHECK(common_atoms(both) == Digits{{2, 4}, {2, 2}});
  CHECK(split_into(a, *common_atoms(both)) == Digits{{2, 4}, {2, 2}});
  CHECK(split_into(b, *common_atoms(both)) == Digits{{2, 4}});
  const Digits gap[] = {{{2, 8}}, {{2, 1}}};
  CHECK(common_atoms(gap) == Digits{{2, 8}, {2, 1}});
  const Digits crossing[] = {{{3, 4}}, {{2, 6}}};
  CHECK(common_atoms(crossing) == std::nullopt);
  CHECK(common_atoms({})->empty());
}

TEST_CASE("digits: set algebra agrees with the tiles of every rank", "[digits]") {
  for (const int64_t count : {8, 12}) {
    const std::vector<Digits> lists = all_lists(count);
    for (const Digits& a : lists) {
      for (const Digits& b : lists) {
        const Digits pair[] = {a, b};
        const auto shared = intersection(a, b);
        const auto rest = difference(a, b);
        CAPTURE(count, a.size(), b.size());
        if (!common_atoms(pair)) {
          CHECK((!shared && !rest && !disjoint(a, b)));
          continue;
        }
        REQUIRE((shared && rest));
        CHECK(disjoint(a, b) == shared->empty());
        CHECK(tile_count(*shared) * tile_count(*rest) == tile_count(a));
        // Both parts together read what a reads; the rest reads nothing of b.
        CHECK(blocks(tile_table(concat(*rest, *shared), count)) == blocks(tile_table(a, count)));
        CHECK(determines(tile_table(b, count), tile_table(*shared, count)));
        for (const Digit& d : *rest)
          CHECK_FALSE(determines(tile_table(b, count), tile_table({d}, count)));
        CHECK(disjoint(*rest, b));
        CHECK(difference(*shared, b)->empty());
      }
    }
  }
}

TEST_CASE("digits: the order of the first list is kept", "[digits]") {
  CHECK(intersection({{2, 1}, {4, 2}}, {{2, 4}, {2, 1}}) == Digits{{2, 1}, {2, 4}});
  CHECK(difference({{2, 1}, {4, 2}}, {{2, 4}}) == Digits{{2, 1}, {2, 2}});
  CHECK_FALSE(intersection({{3, 4}}, {{2, 6}}));
}

TEST_CASE("digits: prefixes agree with the tiles of every rank", "[digits]") {
  for (const int64_t count : {8, 12}) {
    const std::vector<Digits> lists = all_lists(count);
    for (const Digits& a : lists) {
      for (const Digits& b : lists) {
        // By the definition: tiles of a prefix are tiles of the whole, divided.
        bool expected = tile_count(b) % tile_count(a) == 0;
        for (int64_t r = 0; expected && r < count; ++r)
          expected = tile_index(b, r) / (tile_count(b) / tile_count(a)) == tile_index(a, r);
        CHECK(is_prefix(a, b) == expected);
        const Digits prefix = common_prefix(a, b);
        CHECK((is_prefix(prefix, a) && is_prefix(prefix, b)));
        CHECK(prefix == common_prefix(b, a));
        for (const Digits& longer : lists)
          if (tile_count(longer) > tile_count(prefix))
            CHECK_FALSE((is_prefix(longer, a) && is_prefix(longer, b)));
      }
    }
  }
}

TEST_CASE("digits: the example of the longest common prefix", "[digits]") {
  CHECK(common_prefix({{2, 4}, {2, 1}}, {{4, 2}}) == Digits{{2, 4}});
}

TEST_CASE("device orders: equal lists are one pointer, 0,1,2 is the iota", "[digits]") {
  CHECK(list_order({0, 1, 2, 3}) == iota_order(4));
  CHECK(list_order({3, 1, 2, 0}) == list_order({3, 1, 2, 0}));
  CHECK(list_order({3, 1, 2, 0}) != list_order({3, 2, 1, 0}));
  const DeviceOrder order = list_order({7, 2, 9});
  CHECK(order->device(1) == 2);
  CHECK(order->rank(9) == 2);
  CHECK(order->rank(7) == 0);
  CHECK(order->rank(8) == -1);
  CHECK(iota_order(4)->rank(3) == 3);
  CHECK(iota_order(4)->rank(4) == -1);
}

TEST_CASE("replica groups: iota forms are the shortest", "[groups]") {
  const auto text = [](int64_t n, const Digits& d) {
    return to_string(groups_over(iota_order(n), d));
  };
  CHECK(text(8, {{8, 1}}) == "[1,8]<=[8]");
  CHECK(text(8, {}) == "[8,1]<=[8]");
  CHECK(text(8, {{4, 1}}) == "[2,4]<=[8]");
  CHECK(text(8, {{2, 4}}) == "[4,2]<=[2,4]T(1,0)");
  CHECK(text(8, {{2, 2}}) == "[4,2]<=[2,2,2]T(0,2,1)");
  CHECK(text(8, {{2, 1}, {2, 4}}) == "[2,4]<=[2,4]T(1,0)");
  CHECK(text(1, {}) == "[1,1]<=[1]");
  CHECK(to_string(groups_over(list_order({3, 2, 1, 0}), {{2, 1}})) == "{{3,2},{1,0}}");
  CHECK(to_string(ReplicaGroups{}) == "{}");
}

TEST_CASE("replica groups: members differ in the digits only, in tile order", "[groups]") {
  const DeviceOrder reversed = list_order({11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  for (const DeviceOrder order : {iota_order(12), reversed}) {
    for (const Digits& digits : all_lists(12)) {
      const ReplicaGroups groups = groups_over(order, digits);
      CHECK(group_size(groups, 12) == tile_count(digits));
      std::set<int64_t> seen;
      for (const std::vector<int64_t>& group : materialize(groups, 12)) {
        REQUIRE(int64_t(group.size()) == tile_count(digits));
        for (size_t i = 0; i < group.size(); ++i) {
          CHECK(tile_index(digits, order->rank(group[i])) == int64_t(i));
          seen.insert(group[i]);
          int64_t base[2] = {order->rank(group[0]), order->rank(group[i])};
          for (int64_t& r : base)
            for (const Digit& d : digits) r -= r / d.stride % d.size * d.stride;
          CHECK(base[0] == base[1]);
        }
      }
      CHECK(seen.size() == 12);
    }
  }
}

TEST_CASE("replica groups: the empty form is one group of all", "[groups]") {
  CHECK(materialize(ReplicaGroups{}, 3) == std::vector<std::vector<int64_t>>{{0, 1, 2}});
  CHECK(group_size(ReplicaGroups{}, 3) == 3);
}

TEST_CASE("replica groups: counts that do not fit together are a user's error", "[groups]") {
  ReplicaGroups groups;
  groups.num_groups = 2;
  groups.group_size = 3;
  groups.reshape = {8};
  CHECK_THROWS_WITH(materialize(groups, 8), Contains("the products must agree"));
  groups.group_size = 4;
  groups.transpose = {1};
  CHECK_THROWS_WITH(materialize(groups, 8), Contains("not a permutation"));
}
