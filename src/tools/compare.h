#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gspmd/base/array.h"

namespace gspmd::tools {

struct Tolerance {
  std::optional<double> rtol, atol;  // absent: by dtype
};

struct Difference {
  int64_t output = 0;
  std::vector<int64_t> index;
  double expected = 0, actual = 0;
};

struct Comparison {
  bool equal = true;
  double max_abs_error = 0, max_rel_error = 0;
  std::optional<Difference> first;
};

// `exact`: every element bit for bit. Else integers and pred bit for bit, and floats within
//   |actual - expected| <= atol + rtol * |expected|,
// rtol by dtype (f64 1e-12, f32 1e-5, f16 2e-3, bf16 2e-2), atol = rtol * the largest finite
// magnitude in the expected array: what cancels to nearly zero carries the rounding of the large
// terms. NaN equals NaN, and infinities equal themselves only.
Comparison compare(std::span<const Array> expected, std::span<const Array> actual, bool exact,
                   const Tolerance& tolerance);

}  // namespace gspmd::tools
