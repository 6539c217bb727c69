#pragma once

#include "gspmd/kernels/indexed_slices.h"

namespace gspmd {

// A gather of slices whose elements lie apart in the result, beside those of the next slices, as
// columns do: all origins first, then row after row of the result, which read row after row of the
// sliced array. Empty where slices are short, or too many for their origins to stay near.
PreparedKernel prepare_gather_columns(const IndexedSlices& slices);

}  // namespace gspmd
