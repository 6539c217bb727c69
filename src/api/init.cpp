#include "gspmd/api/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "api/random_fill.h"
#include "api/threefry.h"
#include "gspmd/api/random.h"
#include "gspmd/base/error.h"

namespace gspmd {
namespace {

// Numbers of inputs and outputs of one element.
struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(const char* op, const Shape& shape, const FanOptions& options, Site site) {
  const auto rank = static_cast<int64_t>(shape.dims.size());
  if (rank < 2)
    user_error(site, "{}: {} has fewer than 2 dims; inputs and outputs are counted by one each", op,
               to_string(shape));
  Fans fans;
  double field = 1;
  std::vector<bool> named(shape.dims.size(), false);
  const auto product = [&](const std::vector<int64_t>& axes) {
    double count = 1;
    for (const int64_t axis : axes) {
      if (axis < -rank || axis >= rank)
        user_error(site, "{}: axis {} is outside {}; give {} to {}", op, axis, to_string(shape),
                   -rank, rank - 1);
      const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
      if (named[at])
        user_error(site,
                   "{}: axis {} of {} is named twice; a dim counts inputs, outputs or weights", op,
                   at, to_string(shape));
      named[at] = true;
      count *= static_cast<double>(shape.dims[at]);
    }
    return count;
  };
  fans.in = product(options.in_axes);
  fans.out = product(options.out_axes);
  product(options.batch_axes);
  for (size_t i = 0; i < named.size(); ++i)
    if (!named[i]) field *= static_cast<double>(shape.dims[i]);
  fans.in = std::max(fans.in * field, 1.0);
  fans.out = std::max(fans.out * field, 1.0);
  return fans;
}

void check_random(const char* op, const Shape& shape, int64_t stream, Site site) {
  if (!is_floating(shape.dtype))
    user_error(site, "{}: numbers of type {} are not made; use a floating type", op,
               dtype_name(shape.dtype));
  if (stream < 0 || stream > 4294967295)
    user_error(site, "{}: stream {} is wrong; give 0 to 4294967295", op, stream);
}

Array uniform_array(const char* op, const Shape& shape, uint32_t seed, double variance,
                    int64_t stream, Site site) {
  check_random(op, shape, stream, site);
  const double limit = std::sqrt(3 * variance);
  Array result(shape);
  detail::each_random_chunk(shape, seed, stream, [&](const detail::RandomChunk& c) {
    detail::write_numbers(result, c.first, c.n, [&](int64_t i) {
      return (2 * detail::uniform_f64(c.words0[i], c.words1[i]) - 1) * limit;
    });
  });
  return result;
}

// The x with erf(x) = y: S. Winitzki's approximation (2008), then Halley's steps.
double inverse_erf(double y) {
  constexpr double a = 0.147;
  const double log = std::log1p(-y * y);
  const double half = 2 / (std::numbers::pi * a) + log / 2;
  double x = std::copysign(std::sqrt(std::sqrt(half * half - log / a) - half), y);
  for (int i = 0; i < 3; ++i) {
    const double error = std::erf(x) - y;
    const double slope = 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x);
    if (slope == 0) break;
    x -= error / (slope + x * error);
  }
  return x;
}

Array normal_array(const char* op, const Shape& shape, uint32_t seed,
                   const TruncatedNormalOptions& o, Site site) {
  check_random(op, shape, o.stream, site);
  const double low = std::erf(o.lower / std::numbers::sqrt2);
  const double high = std::erf(o.upper / std::numbers::sqrt2);
  Array result(shape);
  detail::each_random_chunk(shape, seed, o.stream, [&](const detail::RandomChunk& c) {
    detail::write_numbers(result, c.first, c.n, [&](int64_t i) {
      // Neither 0 nor 1.
      const double u = detail::uniform_f64(c.words0[i], c.words1[i]) + 0x1p-54;
      const double x = std::numbers::sqrt2 * inverse_erf(low + u * (high - low));
      return std::clamp(x, o.lower, o.upper) * o.stddev;
    });
  });
  return result;
}

Array scaled_normal(const char* op, const Shape& shape, uint32_t seed, double variance,
                    int64_t stream, Site site) {
  // The deviation of normal numbers between -2 and 2.
  constexpr double kDeviation = 0.87962566103423978;
  return normal_array(op, shape, seed,
                      {.stddev = std::sqrt(variance) / kDeviation, .stream = stream}, site);
}

// Makes the columns orthonormal from left to right. Twice, so that what rounding leaves of earlier
// columns goes too. The factor that is taken off has a positive diagonal, so that of normal numbers
// every result is equally likely.
void orthonormalize(std::vector<std::vector<double>>& columns) {
  for (size_t j = 0; j < columns.size(); ++j) {
    std::vector<double>& own = columns[j];
    const auto dot = [&](const std::vector<double>& other) {
      double sum = 0;
      for (size_t i = 0; i < own.size(); ++i) sum += own[i] * other[i];
      return sum;
    };
    for (int round = 0; round < 2; ++round)
      for (size_t k = 0; k < j; ++k) {
        const double part = dot(columns[k]);
        for (size_t i = 0; i < own.size(); ++i) own[i] -= part * columns[k][i];
      }
    const double length = std::sqrt(dot(own));
    for (double& x : own) x /= length;
  }
}

}  // namespace

Array glorot_uniform(const Shape& shape, uint32_t seed, const FanOptions& options, Site site) {
  const Fans fans = fans_of("glorot_uniform", shape, options, site);
  return uniform_array("glorot_uniform", shape, seed, 2 / (fans.in + fans.out), options.stream,
                       site);
}

Array glorot_normal(const Shape& shape, uint32_t seed, const FanOptions& options, Site site) {
  const Fans fans = fans_of("glorot_normal", shape, options, site);
  return scaled_normal("glorot_normal", shape, seed, 2 / (fans.in + fans.out), options.stream,
                       site);
}

Array he_uniform(const Shape& shape, uint32_t seed, const FanOptions& options, Site site) {
  const Fans fans = fans_of("he_uniform", shape, options, site);
  return uniform_array("he_uniform", shape, seed, 2 / fans.in, options.stream, site);
}

Array he_normal(const Shape& shape, uint32_t seed, const FanOptions& options, Site site) {
  const Fans fans = fans_of("he_normal", shape, options, site);
  return scaled_normal("he_normal", shape, seed, 2 / fans.in, options.stream, site);
}

Array lecun_normal(const Shape& shape, uint32_t seed, const FanOptions& options, Site site) {
  const Fans fans = fans_of("lecun_normal", shape, options, site);
  return scaled_normal("lecun_normal", shape, seed, 1 / fans.in, options.stream, site);
}

Array truncated_normal(const Shape& shape, uint32_t seed, const TruncatedNormalOptions& options,
                       Site site) {
  if (!(options.lower < options.upper))
    user_error(site, "truncated_normal: lower {} and upper {} are wrong; give lower < upper",
               options.lower, options.upper);
  if (!(options.stddev >= 0 && std::isfinite(options.stddev)))
    user_error(site, "truncated_normal: stddev {} is wrong; give 0 or more, and finite",
               options.stddev);
  return normal_array("truncated_normal", shape, seed, options, site);
}

Array orthogonal(const Shape& shape, uint32_t seed, const OrthogonalOptions& options, Site site) {
  if (shape.dims.size() < 2)
    user_error(site,
               "orthogonal: {} has fewer than 2 dims; rows and columns are counted by one each",
               to_string(shape));
  if (!std::isfinite(options.scale))
    user_error(site, "orthogonal: scale {} is wrong; give a finite number", options.scale);
  check_random("orthogonal", shape, options.stream, site);
  Array result(shape);
  const int64_t columns = shape.dims.back();
  const int64_t rows = columns == 0 ? 0 : result.size() / columns;
  const bool wide = rows < columns;
  const int64_t length = std::max(rows, columns), count = std::min(rows, columns);
  const Array numbers =
      random_normal_array(Shape(DType::f64, {count, length}), seed, options.stream);
  std::vector<std::vector<double>> basis;
  for (int64_t j = 0; j < count; ++j) {
    std::vector<double>& own = basis.emplace_back();
    for (int64_t i = 0; i < length; ++i) own.push_back(numbers.at(j * length + i));
  }
  orthonormalize(basis);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const auto vector = static_cast<size_t>(wide ? row : column);
      const auto place = static_cast<size_t>(wide ? column : row);
      result.set(row * columns + column, options.scale * basis[vector][place]);
    }
  return result;
}

}  // namespace gspmd
