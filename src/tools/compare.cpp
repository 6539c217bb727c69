#include "tools/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gspmd::tools {
namespace {

double default_rtol(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 2e-3;
    default:
      return 2e-2;  // bf16
  }
}

double largest_magnitude(const Array& array) {
  double largest = 0;
  visit_dtype(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const T& value : array.data<T>())
      if (const auto x = std::fabs(static_cast<double>(value)); std::isfinite(x))
        largest = std::max(largest, x);
  });
  return largest;
}

std::vector<int64_t> unflatten(int64_t flat, const Dims& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
  return index;
}

// How far apart two elements are; infinite where one is NaN or infinite and the other is not the
// same.
double distance(double expected, double actual) {
  if (std::isnan(expected) && std::isnan(actual)) return 0;
  if (expected == actual) return 0;
  const double error = std::fabs(actual - expected);
  return std::isnan(error) ? HUGE_VAL : error;
}

struct Limits {
  bool bitwise;
  double rtol, atol;
};

template <class T>
bool within(const T& expected, const T& actual, double error, const Limits& limits) {
  if (std::memcmp(&expected, &actual, sizeof(T)) == 0) return true;
  const auto x = static_cast<double>(expected);
  if (limits.bitwise) return std::isnan(x) && std::isnan(static_cast<double>(actual));
  return error <= limits.atol + limits.rtol * (std::isfinite(x) ? std::fabs(x) : 0);
}

void compare_leaf(int64_t output, const Array& expected, const Array& actual, const Limits& limits,
                  Comparison& result) {
  visit_dtype(expected.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> x = expected.data<T>();
    const std::span<T> y = actual.data<T>();
    for (size_t i = 0; i < x.size(); ++i) {
      const auto a = static_cast<double>(x[i]);
      const auto b = static_cast<double>(y[i]);
      const double error = distance(a, b);
      result.max_abs_error = std::max(result.max_abs_error, error);
      if (error > 0) result.max_rel_error = std::max(result.max_rel_error, error / std::fabs(a));
      if (within(x[i], y[i], error, limits)) continue;
      result.equal = false;
      if (!result.first)
        result.first =
            Difference{output, unflatten(static_cast<int64_t>(i), expected.dims()), a, b};
    }
  });
}

}  // namespace

Comparison compare(std::span<const Array> expected, std::span<const Array> actual, bool exact,
                   const Tolerance& tolerance) {
  Comparison result;
  for (size_t i = 0; i < expected.size(); ++i) {
    const DType dtype = expected[i].dtype();
    Limits limits{exact || !is_floating(dtype), 0, 0};
    if (!limits.bitwise) {
      limits.rtol = tolerance.rtol.value_or(default_rtol(dtype));
      limits.atol = tolerance.atol.value_or(limits.rtol * largest_magnitude(expected[i]));
    }
    compare_leaf(static_cast<int64_t>(i), expected[i], actual[i], limits, result);
  }
  return result;
}

}  // namespace gspmd::tools
