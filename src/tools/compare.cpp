#include "tools/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gspmd::tools {
namespace {

constexpr double kNoiseFactor = 8;

double default_rtol(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128:
      return 1e-12;
    case DType::f32:
    case DType::c64:
      return 1e-5;
    case DType::f16:
      return 2e-3;
    case DType::bf16:
      return 2e-2;
    case DType::f8e3m4:
      return 0x1p-4;
    case DType::f6e2m3fn:
    case DType::f8e4m3:
    case DType::f8e4m3b11fnuz:
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
      return 0x1p-3;
    case DType::f6e3m2fn:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 0x1p-2;
    case DType::f4e2m1fn:
      return 0x1p-1;
    default:
      return 1;  // f8e8m0fnu: powers of two
  }
}

bool is_rounded(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

double largest_magnitude(const Array& array) {
  double largest = 0;
  const int64_t parts = part_count(array.dtype());
  for (int64_t i = 0; i < array.size(); ++i)
    for (int64_t part = 0; part < parts; ++part)
      if (const double x = std::fabs(part_of(element_at(array, i), part)); std::isfinite(x))
        largest = std::max(largest, x);
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

// Elements whose bits differ.
bool within(const Element& expected, const Element& actual, DType dtype, const Limits& limits) {
  if (!is_rounded(dtype)) return false;
  for (int64_t part = 0; part < part_count(dtype); ++part) {
    const double x = part_of(expected, part);
    const double y = part_of(actual, part);
    if (std::isnan(x) && std::isnan(y)) continue;
    const bool same = x == y && std::signbit(x) == std::signbit(y);
    if (limits.bitwise && !same) return false;
    const double error = distance(x, y);
    if (error > limits.atol + limits.rtol * (std::isfinite(x) ? std::fabs(x) : 0)) return false;
  }
  return true;
}

void add_errors(const Element& expected, const Element& actual, DType dtype, Comparison& result) {
  for (int64_t part = 0; part < part_count(dtype); ++part) {
    const double x = part_of(expected, part);
    const double error = distance(x, part_of(actual, part));
    result.max_abs_error = std::max(result.max_abs_error, error);
    if (error > 0) result.max_rel_error = std::max(result.max_rel_error, error / std::fabs(x));
  }
}

bool same_bytes(const Array& a, const Array& b, size_t offset, size_t count) {
  return count == 0 ||
         std::memcmp(a.bytes().data() + offset, b.bytes().data() + offset, count) == 0;
}

void compare_leaf(int64_t output, const Array& expected, const Array& actual, const Limits& limits,
                  Comparison& result) {
  const DType dtype = expected.dtype();
  if (same_bytes(expected, actual, 0, expected.bytes().size())) return;
  const auto size = static_cast<size_t>(dtype_size(dtype));
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (same_bytes(expected, actual, static_cast<size_t>(i) * size, size)) continue;
    const Element x = element_at(expected, i);
    const Element y = element_at(actual, i);
    add_errors(x, y, dtype, result);
    if (within(x, y, dtype, limits)) continue;
    result.equal = false;
    if (!result.first) result.first = Difference{output, -1, unflatten(i, expected.dims()), x, y};
  }
}

}  // namespace

Comparison compare(std::span<const Array> expected, std::span<const Array> actual, bool exact,
                   const Tolerance& tolerance) {
  Comparison result;
  for (size_t i = 0; i < expected.size(); ++i) {
    const DType dtype = expected[i].dtype();
    Limits limits{exact || !is_rounded(dtype), 0, 0};
    if (!limits.bitwise) {
      const double noise = i < tolerance.noise.size() ? kNoiseFactor * tolerance.noise[i] : 0;
      limits.rtol = tolerance.rtol.value_or(default_rtol(dtype));
      limits.atol = tolerance.atol.value_or(limits.rtol * largest_magnitude(expected[i]) + noise);
    }
    compare_leaf(static_cast<int64_t>(i), expected[i], actual[i], limits, result);
  }
  return result;
}

std::vector<double> noise_between(std::span<const Array> a, std::span<const Array> b) {
  std::vector<double> noise;
  for (size_t i = 0; i < a.size(); ++i) {
    double largest = 0;
    const DType dtype = a[i].dtype();
    if (is_rounded(dtype) && !same_bytes(a[i], b[i], 0, a[i].bytes().size()))
      for (int64_t k = 0; k < a[i].size(); ++k)
        for (int64_t part = 0; part < part_count(dtype); ++part) {
          const double error =
              distance(part_of(element_at(a[i], k), part), part_of(element_at(b[i], k), part));
          if (std::isfinite(error)) largest = std::max(largest, error);
        }
    noise.push_back(largest);
  }
  return noise;
}

}  // namespace gspmd::tools
