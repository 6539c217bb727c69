#pragma once

// Copies between strided arrays.

#include <cstddef>
#include <cstdint>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// target[i·target strides] = source[i·source strides] for every index i of `dims`; strides in
// elements, any sign, 0 in the source repeats. Elements of 1, 2, 4, 8 or 16 bytes.
struct StridedCopy {
  int64_t element_size = 4;   // in bytes
  Dims dims, source, target;  // sizes of the loops, and the steps they make in elements
};

// The same copy in fewest loops, the target's smallest stride innermost.
GSPMD_API StridedCopy simplified(StridedCopy copy);
// Runs a simplified copy: rows, fills and transposes are fast.
GSPMD_API void run_copy(const StridedCopy& copy, const std::byte* source, std::byte* target);

// Copies one after the other, each from an operand into result 0, offsets in elements: transpose,
// slice, concatenate, broadcast, reverse.
struct PlacedCopy {
  StridedCopy copy;  // of one operand
  // Which operand; where it begins and where it goes.
  int64_t operand = 0, source_offset = 0, target_offset = 0;
};
// Copies are parts; they do not overlap in the result.
GSPMD_API PreparedKernel prepare_copies(std::vector<PlacedCopy> copies);

}  // namespace gspmd
