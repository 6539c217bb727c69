#pragma once

#include <span>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/ir/module.h"

namespace gspmd::tools {

// How much the results of a one-device module move when everything that it rounds is rounded a
// little otherwise: runs it by the reference kernels with each rounded value changed at random by
// up to two units of rounding, of the sum of the terms' magnitudes where it is a sum of many. That
// is what a mesh does when it rounds partial sums, or keeps more or fewer digits between fused
// operations. Per leaf the largest finite distance from `results`; 0 for integers. The same numbers
// in every run.
std::vector<double> rounding_noise(const Module& single, std::span<const Array> inputs,
                                   std::span<const Array> results);

}  // namespace gspmd::tools
