#pragma once

// Every other element, and elements of two arrays in turn.

#include <cstddef>
#include <cstdint>

namespace gspmd {

struct LoopStrides {
  // out[i] = from[2 * i] for i < n; nothing behind the last of these is read.
  void (*every_other)(std::byte* out, const std::byte* from, int64_t n) = nullptr;
  // out[2 * i] = a[i], out[2 * i + 1] = b[i] for i < n.
  void (*in_turn)(std::byte* out, const std::byte* a, const std::byte* b, int64_t n) = nullptr;
};
const LoopStrides& loop_strides(int64_t element_size);  // of 1, 2, 4 or 8 bytes

}  // namespace gspmd
