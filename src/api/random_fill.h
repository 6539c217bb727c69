#pragma once

#include <cstdint>
#include <functional>

#include "gspmd/base/array.h"

namespace gspmd::detail {

// Random words of the elements first, ..., first + n - 1 of an array, at most kRandomChunk of them.
// Behind the words is room for as many as fill a chunk.
constexpr int64_t kRandomChunk = 1024;
struct RandomChunk {
  int64_t first = 0, n = 0;
  const uint32_t* words0 = nullptr;
  const uint32_t* words1 = nullptr;
};

// Calls `f` on chunks that make up an array of this shape, from several threads where it is large.
// The counter of an element is its index, as in a trace. `f` does not throw.
void each_random_chunk(const Shape& shape, uint32_t seed, int64_t stream,
                       const std::function<void(const RandomChunk&)>& f);

// Elements first, ..., first + n - 1 of floating type: number(i) for 0 <= i < n, rounded as
// Array::set does.
template <class F>
void write_numbers(const Array& array, int64_t first, int64_t n, F&& number) {
  const auto write = [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, double>)
        out[first + i] = number(i);
      else
        out[first + i] = T(static_cast<float>(number(i)));
    }
  };
  switch (array.dtype()) {
    case DType::f64:
      return write(array.data<double>().data());
    case DType::f32:
      return write(array.data<float>().data());
    case DType::f16:
      return write(array.data<float16>().data());
    case DType::bf16:
      return write(array.data<bfloat16>().data());
    default:  // narrow ones
      Array target = array;
      for (int64_t i = 0; i < n; ++i) target.set(first + i, number(i));
  }
}

}  // namespace gspmd::detail
