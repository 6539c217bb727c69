#pragma once

#include <cstdint>

#include "gspmd/base/shape.h"

namespace gspmd {

// Bytes rounded up to whole cache lines, as scratch is cut.
inline int64_t in_lines(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

}  // namespace gspmd
