#pragma once

#include <cstddef>
#include <cstdint>

#include "gspmd/base/dtype.h"

namespace gspmd {

constexpr int64_t kSummedLines = 8;

// results[l] = the sum of the n elements of line l, for kSummedLines lines one behind the other, in
// the order of a fold (see find_fold_turned).
using SumLines = void (*)(std::byte* results, const std::byte* lines, int64_t n);
// nullptr: not for this type, such short lines or this processor.
SumLines find_sum_lines(DType dtype, int64_t n);

}  // namespace gspmd
