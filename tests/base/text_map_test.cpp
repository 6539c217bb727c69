#include "base/text_map.h"

#include <memory>
#include <random>

#include "catch2/catch.hpp"

using namespace gspmd;

TEST_CASE("text map: agrees with a map of strings whatever comes in which order", "[base]") {
  std::mt19937 random(20261125);
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back("v" + std::to_string(random() % 2000));
  names.emplace_back();  // a name may be empty
  std::map<std::string, int> expected;
  TextMap<int> map;
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

TEST_CASE("text map: values that only move keep what they hold as the map grows", "[base]") {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("n" + std::to_string(i));
  TextMap<std::unique_ptr<int>> map;
  for (size_t i = 0; i < names.size(); ++i)
    map[names[i]] = std::make_unique<int>(static_cast<int>(i));
  for (size_t i = 0; i < names.size(); ++i) {
    REQUIRE(map.find(names[i]) != nullptr);
    CHECK(**map.find(names[i]) == static_cast<int>(i));
  }
}
