#pragma once

// What benchmarks measure with.

#include <algorithm>
#include <functional>
#include <vector>

namespace gspmd {

// The middle one of some values, of an even number the upper of both.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Of what `value` says of each, a member or a function.
template <typename T, typename Value>
double median(const std::vector<T>& of, Value value) {
  std::vector<double> values;
  for (const T& each : of) values.push_back(std::invoke(value, each));
  return median(std::move(values));
}

// What a quarter of some values stay below: of times, those that nothing disturbed.
inline double lower_quartile(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 4];
}

}  // namespace gspmd
