#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace gspmd {

// The largest of neighbouring numbers, in constant time.
class MostInRange {
 public:
  explicit MostInRange(std::vector<int64_t> numbers) : levels_{std::move(numbers)} {
    for (size_t step = 1; 2 * step <= levels_[0].size(); step *= 2) {
      const std::vector<int64_t>& half = levels_.back();
      std::vector<int64_t> level(half.size() - step);
      for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(half[i], half[i + step]);
      levels_.push_back(std::move(level));
    }
  }
  // Of those at first, ..., last.
  int64_t operator()(int64_t first, int64_t last) const {
    const auto count = static_cast<size_t>(last - first + 1);
    const size_t level = static_cast<size_t>(std::bit_width(count)) - 1;
    const size_t width = size_t{1} << level, begin = static_cast<size_t>(first);
    return std::max(levels_[level][begin], levels_[level][begin + count - width]);
  }

 private:
  std::vector<std::vector<int64_t>> levels_;  // of 1, 2, 4, ... numbers
};

}  // namespace gspmd
