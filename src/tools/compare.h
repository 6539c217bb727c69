#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gspmd/base/array.h"
#include "tools/elements.h"

namespace gspmd::tools {

struct Tolerance {
  std::optional<double> rtol, atol;  // absent: by dtype
  // Per leaf: how far apart two one-device computations that round differently are; empty: not
  // known.
  std::vector<double> noise = {};
};

struct Difference {
  int64_t output = 0;
  int64_t device = -1;  // of programs that run as copies
  std::vector<int64_t> index;
  Element expected, actual;
};

struct Comparison {
  bool equal = true;
  double max_abs_error = 0, max_rel_error = 0;
  std::optional<Difference> first;
};

// `exact`: every element bit for bit. Else integers and pred bit for bit, and floats, complex
// numbers part by part, within
//   |actual - expected| <= atol + rtol * |expected|.
// rtol is four units of rounding of the dtype and more where results are long sums: f64 1e-12, f32
// 1e-5, f16 2e-3, bf16 2e-2, 8-bit floats 2^-m for m bits of mantissa. atol = rtol * M + 8 * noise.
// M is the largest finite magnitude in the expected array: an element that cancels to nearly zero
// carries the rounding of the large terms it came from. Where the cancellation happened before, M
// does not show it; the noise does: how far apart two one-device computations are that do the same
// with other orders and roundings (the fast and the reference kernels; rounding_noise.h). A mesh
// adds a few such roundings. A wrong program is off by whole terms. NaN equals NaN, and infinities
// equal themselves only.
Comparison compare(std::span<const Array> expected, std::span<const Array> actual, bool exact,
                   const Tolerance& tolerance);

// For Tolerance::noise: per leaf, the largest finite distance of two results; 0 for integers.
std::vector<double> noise_between(std::span<const Array> a, std::span<const Array> b);

}  // namespace gspmd::tools
