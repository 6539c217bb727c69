#include <algorithm>
#include <cmath>
#include <numbers>

#include "api/random_fill.h"
#include "api/threefry.h"
#include "gspmd/api/random.h"
#include "kernels/host_threads.h"
#include "kernels/random_numbers.h"

namespace gspmd {

namespace detail {

void each_random_chunk(const Shape& shape, uint32_t seed, int64_t stream,
                       const std::function<void(const RandomChunk&)>& f) {
  // As in a trace: the counter's low word runs over the trailing dims that stay below 2^32.
  int64_t below = 1;
  for (size_t i = shape.dims.size(); i-- > 0;) {
    const int64_t next = saturating_multiply(below, shape.dims[i]);
    if (next > (int64_t{1} << 32)) break;
    below = next;
  }
  constexpr int64_t kThreadNumbers = 64 * kRandomChunk;  // worth a thread's turn
  in_ranges(shape.elements_count(), kThreadNumbers, [&](int64_t begin, int64_t end) {
    uint32_t words0[kRandomChunk], words1[kRandomChunk];
    while (begin < end) {
      const int64_t n = std::min({end - begin, kRandomChunk, below - begin % below});
      threefry_words({seed, static_cast<uint32_t>(stream), static_cast<uint32_t>(begin % below),
                      static_cast<uint32_t>(begin / below)},
                     n, words0, words1);
      f({begin, n, words0, words1});
      begin += n;
    }
  });
}

}  // namespace detail

namespace {

using namespace detail;

Array new_array(const char* op, const Shape& shape, int64_t stream) {
  if (!is_floating(shape.dtype))
    user_error("{}: numbers of type {} are not made; use a floating type", op,
               dtype_name(shape.dtype));
  if (stream < 0 || stream > 4294967295)
    user_error("{}: stream {} is wrong; give 0 to 4294967295", op, stream);
  return Array(shape);
}

double normal_f64(uint32_t word0, uint32_t word1) {
  return std::sqrt(-2 * std::log((word0 + 1.0) * 0x1p-32)) *
         std::cos(2 * std::numbers::pi * (word1 * 0x1p-32));
}

}  // namespace

Array random_uniform_array(const Shape& shape, uint32_t seed, int64_t stream) {
  Array array = new_array("random_uniform_array", shape, stream);
  const bool is_double = shape.dtype == DType::f64;
  each_random_chunk(shape, seed, stream, [&](const RandomChunk& c) {
    if (is_double)
      write_numbers(array, c.first, c.n,
                    [&](int64_t i) { return uniform_f64(c.words0[i], c.words1[i]); });
    else
      write_numbers(array, c.first, c.n, [&](int64_t i) { return uniform_f32(c.words0[i]); });
  });
  return array;
}

Array random_normal_array(const Shape& shape, uint32_t seed, int64_t stream) {
  Array array = new_array("random_normal_array", shape, stream);
  const bool is_double = shape.dtype == DType::f64;
  each_random_chunk(shape, seed, stream, [&](const RandomChunk& c) {
    if (is_double)
      return write_numbers(array, c.first, c.n,
                           [&](int64_t i) { return normal_f64(c.words0[i], c.words1[i]); });
    float numbers[kRandomChunk];
    normal_numbers(c.words0, c.words1, c.n, numbers);
    write_numbers(array, c.first, c.n, [&](int64_t i) { return numbers[i]; });
  });
  return array;
}

}  // namespace gspmd
