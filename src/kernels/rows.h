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

// Rows that several sources make together: a row of a target has a row of each source in it.
struct JoinedRows {
  int64_t rows = 1;
  int64_t bytes = 0;        // of each source in a row
  int64_t source_step = 0;  // from row to row, of all sources
  int64_t target_step = 0;  // from row to row
  int64_t place_step = 0;   // from one source's place in a row to the next one's
  bool far = false;         // sources are too many for the second-level cache
};

// Makes rows of several targets, which take turns, past the caches where `streamed` (call
// flush_stream() behind the last). Target t reads each source from offsets[t]; without offsets all
// targets get the same, and sources are read once. Short rows leave as long ones.
void join_rows(const JoinedRows& joined, std::span<std::byte* const> targets,
               std::span<const int64_t> offsets, std::span<const std::byte* const> sources,
               bool streamed);

// target = ((s0 + s1) + s2) + ... of rows, in all targets: read once and written once to each.
// Sources have one step and targets another; a single target may be a source where these are equal.
// Of 16-bit floats the sums are f32 and rounded once. nullptr: not for this type.
using SumRows = void (*)(const RowBlock& block, std::span<std::byte* const> targets,
                         int64_t target_step, std::span<const std::byte* const> sources,
                         int64_t source_step, bool streamed);
SumRows find_sum_rows(DType dtype);

}  // namespace gspmd
