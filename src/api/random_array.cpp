#include <cmath>
#include <numbers>

#include "api/threefry.h"
#include "gspmd/api/random.h"

namespace gspmd {
namespace {

using namespace detail;

Array fill(const char* op, const Shape& shape, uint32_t seed, int64_t stream,
           double (*number)(const std::array<uint32_t, 2>& words, bool is_double)) {
  if (!is_floating(shape.dtype))
    user_error("{}: numbers of type {} are not made; use a floating type", op,
               dtype_name(shape.dtype));
  if (stream < 0 || stream > 4294967295)
    user_error("{}: stream {} is wrong; give 0 to 4294967295", op, stream);
  Array array(shape);
  // As in a trace: the counter's low word runs over the trailing dims that stay below 2^32.
  int64_t below = 1;
  for (size_t i = shape.dims.size(); i-- > 0;) {
    const int64_t next = saturating_multiply(below, shape.dims[i]);
    if (next > (int64_t{1} << 32)) break;
    below = next;
  }
  for (int64_t i = 0; i < array.size(); ++i) {
    const auto words = threefry(HostWords{}, seed, static_cast<uint32_t>(stream),
                                static_cast<uint32_t>(i % below), static_cast<uint32_t>(i / below));
    array.set(i, number(words, shape.dtype == DType::f64));
  }
  return array;
}

double uniform(const std::array<uint32_t, 2>& words, bool is_double) {
  return is_double ? uniform_f64(words[0], words[1]) : uniform_f32(words[0]);
}

double normal(const std::array<uint32_t, 2>& words, bool is_double) {
  if (is_double)
    return std::sqrt(-2 * std::log((words[0] + 1.0) * 0x1p-32)) *
           std::cos(2 * std::numbers::pi * (words[1] * 0x1p-32));
  const float u1 = (static_cast<float>(words[0] >> 8) + 1) * 0x1p-24f;
  const float u2 = uniform_f32(words[1]);
  return std::sqrt(-2 * std::log(u1)) * std::cos(static_cast<float>(2 * std::numbers::pi) * u2);
}

}  // namespace

Array random_uniform_array(const Shape& shape, uint32_t seed, int64_t stream) {
  return fill("random_uniform_array", shape, seed, stream, uniform);
}

Array random_normal_array(const Shape& shape, uint32_t seed, int64_t stream) {
  return fill("random_normal_array", shape, seed, stream, normal);
}

}  // namespace gspmd
