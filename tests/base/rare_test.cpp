#include "gspmd/base/rare.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "gspmd/base/name_table.h"

using namespace gspmd;

TEST_CASE("rare: absent lists, maps and strings read as empty ones", "[rare]") {
  const Rare<std::vector<int>> none;
  CHECK((none.empty() && none.size() == 0 && none.begin() == none.end()));
  CHECK(none == std::vector<int>{});
  CHECK(!Rare<std::map<int, int>>().contains(1));
  CHECK(Rare<std::map<int, int>>().count(1) == 0);
  CHECK((Rare<std::string>() == "" && Rare<std::string>() != "a"));
}

TEST_CASE("rare: copies have a value of their own", "[rare]") {
  Rare<std::vector<int>> list = std::vector<int>{1, 2};
  Rare<std::vector<int>> copy = list;
  CHECK(copy == list);
  copy.push_back(3);
  copy[0] = 7;
  CHECK(list == std::vector<int>{1, 2});
  CHECK(copy == std::vector<int>{7, 2, 3});
  list = copy;
  CHECK(list == copy);
  list = {};
  CHECK((!list.present() && copy.size() == 3));
  copy = std::vector<int>{};
  CHECK((copy == list && copy.present()));

  Rare<std::map<std::string, int>> map;
  map["a"] = 1;
  map.emplace("b", 2);
  map.erase("a");
  CHECK(map == std::map<std::string, int>{{"b", 2}});
  Rare<std::string> text;
  text = "SPMD";
  CHECK((text == "SPMD" && text.starts_with("SP") && *text + "!" == "SPMD!"));
}

TEST_CASE("name table: agrees with a map of names", "[names]") {
  std::mt19937 random(7);
  NameTable table;
  std::unordered_map<std::string, int64_t> map;
  for (int i = 0; i < 20000; ++i) {
    const std::string name = std::string(random() % 3, 'a') + std::to_string(random() % 4000);
    const auto [at, is_new] = map.try_emplace(name, 0);
    const NameTable::Entry entry = table.add(name);
    REQUIRE((entry.is_new == is_new && entry.number == at->second));
    entry.number = at->second = i;
    if (i == 10000) {
      NameTable copy = table;
      CHECK((copy.size() == map.size() && !copy.add(name).is_new && copy.add("new").is_new));
    }
  }
  CHECK(table.size() == map.size());
  CHECK(table.add("").is_new);
  CHECK(!table.add("").is_new);
}
