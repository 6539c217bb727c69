#pragma once

#include <cstdint>

#include "gspmd/mesh/sharding.h"

namespace gspmd::io {

// The elements of `box` in a row-major array of dims `from`, which go to the beginning of one of
// dims `to`, as runs that have no gaps on either side: run(first in `from`, first in `to`, how
// many), in elements, ascending.
template <class F>
void each_row(const Dims& from, const Box& box, const Dims& to, F&& run) {
  if (box.is_empty()) return;
  const Dims from_strides = row_major_strides(from), to_strides = row_major_strides(to);
  // Trailing dims that are whole in both and in the box lie in one run with the dim before them.
  size_t rows = from.size();
  int64_t count = 1;
  while (rows > 0) {
    const size_t d = --rows;
    count *= box.size[d];
    if (box.size[d] != from[d] || to[d] != from[d]) break;
  }
  Dims at(rows, 0);
  while (true) {
    int64_t first = 0, into = 0;
    for (size_t d = 0; d < from.size(); ++d) {
      first += (box.start[d] + (d < rows ? at[d] : 0)) * from_strides[d];
      into += (d < rows ? at[d] : 0) * to_strides[d];
    }
    run(first, into, count);
    size_t d = rows;
    while (d > 0 && ++at[d - 1] == box.size[d - 1]) at[--d] = 0;
    if (d == 0) break;
  }
}

}  // namespace gspmd::io
