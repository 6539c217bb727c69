#pragma once

#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

constexpr int64_t kMostSummed = 8;

// Bytes from one of the results that are added up to the next.
int64_t summed_step(int64_t bytes);
// Makes `kernel`, whose first stage writes `count` (at most kMostSummed) results of f32 of `bytes`
// each into the shared memory, add these up in their order.
void sum_parts(PreparedKernel& kernel, int64_t count, int64_t bytes);

}  // namespace gspmd
