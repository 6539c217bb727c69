#pragma once

#include <optional>

#include "gspmd/ir/attributes.h"

namespace gspmd {

// A window dim in which every position has all elements up to it, or from it on: result[i] combines
// y[0..i] (reverse: y[i..]), where y[i] = x[i + shift], nothing outside of the dim. So cumulative
// sums are written; shift is 0 but for exclusive ones.
struct CumulativeDim {
  bool reverse = false;
  int64_t shift = 0;
};
std::optional<CumulativeDim> cumulative_dim(const WindowDim& w, int64_t size, int64_t positions);

}  // namespace gspmd
