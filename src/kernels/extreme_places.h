#pragma once

#include <cstddef>
#include <cstdint>

#include "gspmd/base/dtype.h"

namespace gspmd {

// Lines of elements, of which element k of line j is at k * step + j of `elements`.
struct ElementLines {
  const std::byte* elements = nullptr;
  int64_t length = 0;  // from 1 to 2^31 - 1
  int64_t count = 1;   // of lines
  int64_t step = 1;    // 1: one line
};

// Whether find_extreme_places takes the type: floats of 16 to 64 bits, s32 and s64.
bool has_extreme_places(DType dtype);

// Of each line where its first greatest element is, or its first least one; its first NaN where it
// has any.
void find_extreme_places(DType dtype, bool greatest, const ElementLines& lines, int64_t* places);

}  // namespace gspmd
