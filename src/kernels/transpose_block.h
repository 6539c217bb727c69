#pragma once

#include <cstddef>
#include <cstdint>

namespace gspmd {

// target[i * target_row + j] = source[j * source_row + i], 0 <= i, j < block_side; rows in
// elements.
using TransposeBlock = void (*)(const std::byte* source, int64_t source_row, std::byte* target,
                                int64_t target_row);

// Elements in a cache line.
constexpr int64_t block_side(int64_t element_size) { return 64 / element_size; }

// Of elements of 1, 2, 4 or 8 bytes.
TransposeBlock transpose_block_function(int64_t element_size);

}  // namespace gspmd
