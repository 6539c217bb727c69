#pragma once

#include <cstdint>

namespace gspmd {

// target[i * target_row + j] = source[j * source_row + i] for a block of 16 x 16 4-byte elements.
using TransposeBlock = void (*)(const uint32_t* source, int64_t source_row, uint32_t* target,
                                int64_t target_row);
TransposeBlock transpose_block_function();  // the fastest for this machine

}  // namespace gspmd
