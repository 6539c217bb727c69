#pragma once

#include "gspmd/base/array.h"

namespace gspmd {

// Whether nobody has had the elements of an array in hand since it was made of zeros: its memory is
// still the system's zeros, which need not be copied.
bool is_untouched_zero(const Array& array);

}  // namespace gspmd
