#pragma once

// How far one dim is padded.

#include <cstdint>

namespace gspmd {

// pad: amounts on one dim, in elements; low and high may be negative.
struct PaddingDim {
  int64_t low = 0, high = 0, interior = 0;  // before, behind, and between two elements
  bool operator==(const PaddingDim&) const = default;
};

}  // namespace gspmd
