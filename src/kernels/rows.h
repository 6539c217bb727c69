#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gspmd/base/dtype.h"

namespace gspmd {

// Rows of some bytes each, so many bytes from one to the next.
struct RowBlock {
  int64_t rows = 1;
  int64_t bytes = 0;  // of one
};

// Copies rows; past the caches where `streamed` (call flush_stream() behind the last).
void copy_rows(const RowBlock& block, std::byte* to, int64_t to_step, const std::byte* from,
               int64_t from_step, bool streamed);

// target = ((s0 + s1) + s2) + ... of rows, read once and written once. Sources have one step; the
// target may be a source where its step is theirs. nullptr: not for this type.
using SumRows = void (*)(const RowBlock& block, std::byte* target, int64_t target_step,
                         std::span<const std::byte* const> sources, int64_t source_step,
                         bool streamed);
SumRows find_sum_rows(DType dtype);

}  // namespace gspmd
