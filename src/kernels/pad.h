#pragma once

#include <vector>

#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Element i of a dim comes to place low + i * step of the result, where there is one.
struct PadDim {
  int64_t in = 1, out = 1;  // sizes
  int64_t low = 0, step = 1;
};

// Operands: values, the element everywhere else. Elements of 1, 2, 4 or 8 bytes.
PreparedKernel prepare_pad(int64_t element_size, std::vector<PadDim> dims);

}  // namespace gspmd
