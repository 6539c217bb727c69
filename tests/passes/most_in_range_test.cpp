#include "passes/memory/most_in_range.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using gspmd::MostInRange;

TEST_CASE("most in range: as looking at each number, for all ranges of lists of 1 to 40",
          "[passes]") {
  std::mt19937 random(1);
  for (int64_t size = 1; size <= 40; ++size) {
    std::vector<int64_t> numbers(static_cast<size_t>(size));
    for (int64_t& number : numbers) number = static_cast<int64_t>(random() % 100);
    const MostInRange most(numbers);
    for (int64_t first = 0; first < size; ++first)
      for (int64_t last = first; last < size; ++last)
        REQUIRE(most(first, last) ==
                *std::max_element(numbers.begin() + first, numbers.begin() + last + 1));
  }
}
