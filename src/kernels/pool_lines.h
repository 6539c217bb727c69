#pragma once

#include "kernels/pool_windows.h"

namespace gspmd {

// The windows of the innermost axis as a line, where it has elements that lie side by side and all
// of its windows are alike but for what lies outside of the input.
std::optional<PoolLine> pool_line_of(const PoolSpec& spec);

// Extrema of windows: over the other axes rows are combined as a whole, then along the line.
PreparedKernel prepare_pool_lines(PoolSpec spec, const PoolLine& line,
                                  const PoolFunctions& functions);

}  // namespace gspmd
