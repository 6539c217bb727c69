#pragma once

#include <cmath>
#include <type_traits>

namespace gspmd {

// NaN where either is NaN, -0 below +0; written so that it becomes vector selects.
template <class T>
T larger(T a, T b) {
  T result = a > b ? a : b;
  if constexpr (std::is_floating_point_v<T>) {
    result = a == b ? (std::signbit(a) ? b : a) : result;
    result = std::isnan(a) ? a : result;
  }
  return result;
}
template <class T>
T smaller(T a, T b) {
  T result = a < b ? a : b;
  if constexpr (std::is_floating_point_v<T>) {
    result = a == b ? (std::signbit(a) ? a : b) : result;
    result = std::isnan(a) ? a : result;
  }
  return result;
}

}  // namespace gspmd
