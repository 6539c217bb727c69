#include "gspmd/base/flat_map.h"

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "catch2/catch.hpp"

using namespace gspmd;

TEST_CASE("flat map: agrees with a map of strings whatever comes in which order", "[base]") {
  std::mt19937 random(20261125);
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back("v" + std::to_string(random() % 2000));
  names.emplace_back();  // a name may be empty
  std::map<std::string, int> expected;
  FlatMap<std::string_view, int> map;
  CHECK(map.find("v1") == nullptr);
  for (size_t i = 0; i < names.size(); ++i) {
    const int value = static_cast<int>(i);
    if (i % 3 == 0) {
      map.emplace(names[i], value);
      expected.emplace(names[i], value);
    } else {
      map[names[i]] = value;
      expected[names[i]] = value;
    }
    if (i == 1000) map.reserve(5000);
  }
  CHECK(map.size() == expected.size());
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "v" + std::to_string(i);
    const auto found = expected.find(name);
    REQUIRE(map.contains(name) == (found != expected.end()));
    if (found != expected.end()) CHECK(*map.find(name) == found->second);
  }
}

TEST_CASE("flat map: values that only move keep what they hold as the map grows", "[base]") {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("n" + std::to_string(i));
  FlatMap<std::string_view, std::unique_ptr<int>> map;
  for (size_t i = 0; i < names.size(); ++i)
    map[names[i]] = std::make_unique<int>(static_cast<int>(i));
  for (size_t i = 0; i < names.size(); ++i) {
    REQUIRE(map.find(names[i]) != nullptr);
    CHECK(**map.find(names[i]) == static_cast<int>(i));
  }
}

TEST_CASE("flat map: numbers and pointers, close together or far apart", "[base]") {
  std::mt19937 random(7);
  std::vector<int64_t> many(2000);
  std::set<int64_t> expected;
  FlatSet<int64_t> numbers;
  FlatSet<const int64_t*> addresses;
  CHECK(!numbers.contains(0));
  for (int64_t& number : many) {
    number = random() % 2 == 0 ? static_cast<int64_t>(random() % 500)
                               : static_cast<int64_t>(random()) << 30;
    if (random() % 8 == 0) number = -number;
    CHECK(numbers.insert(number) == expected.insert(number).second);
    CHECK(addresses.insert(&number));
  }
  CHECK(numbers.size() == expected.size());
  CHECK(addresses.size() == many.size());
  for (int64_t number = -600; number < 600; ++number)
    REQUIRE(numbers.contains(number) == expected.contains(number));
  FlatMap<int64_t, int> map;
  CHECK(map.emplace(3, 30));
  CHECK(!map.emplace(3, 40));
  CHECK(map.at(3) == 30);
  CHECK_THROWS_AS(map.at(4), std::out_of_range);
}
