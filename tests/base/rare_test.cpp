#include "gspmd/base/rare.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <thread>
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
  copy.edit()[0] = 7;
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

namespace {

// Counts how often it is copied.
struct Counted {
  Counted() = default;
  Counted(const Counted& other) : number(other.number) { ++copies; }
  Counted(Counted&& other) = default;
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
  bool operator==(const Counted& other) const { return number == other.number; }

  int number = 0;
  static inline int copies = 0;
};

}  // namespace

TEST_CASE("rare: copies share the value until one of them is written", "[rare]") {
  Counted::copies = 0;
  Rare<Counted> first;
  first.edit().number = 1;
  Rare<Counted> second = first, third;
  third = second;
  CHECK(Counted::copies == 0);
  CHECK((&second.get() == &first.get() && &third.get() == &first.get()));
  const Counted& before = first.get();
  first.edit().number = 2;
  CHECK(Counted::copies == 1);
  CHECK((first->number == 2 && second->number == 1 && third->number == 1 && before.number == 1));
  second.reset();
  third.edit().number = 3;  // the last owner writes where the value is
  CHECK((Counted::copies == 1 && third->number == 3 && &third.get() == &before));
  third = std::move(first);
  CHECK((third->number == 2 && !first.present()));
  third = *&third;
  CHECK(third->number == 2);
  Rare<std::vector<int>> list = std::vector<int>{1, 2, 3};
  list = std::vector<int>(list.begin() + 1, list.end());  // made of itself
  CHECK(list == std::vector<int>{2, 3});
}

TEST_CASE("rare: copies that share a value are written and dropped by threads of their own",
          "[rare]") {
  Rare<std::vector<int>> shared = std::vector<int>(100, 1);
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(4);
  for (size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([copy = shared, &sum = sums[t], t] {
      for (int i = 0; i < 1000; ++i) {
        Rare<std::vector<int>> mine = copy;
        if (i % 2 == 0) mine.edit()[0] = static_cast<int>(t);
        sum += mine[0] + mine[99];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < sums.size(); ++t) CHECK(sums[t] == 1500 + 500 * static_cast<int64_t>(t));
  CHECK(shared == std::vector<int>(100, 1));
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
