#pragma once

// What benchmarks measure with.

#include <algorithm>
#include <vector>

namespace gspmd {

// The middle one of some values, of an even number the upper of both.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace gspmd
