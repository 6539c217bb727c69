#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Rows one after the other, of the input and of the result; steps in elements.
struct FoldedRows {
  const std::byte* from;  // null: of no elements, each result is what was combined before
  int64_t from_step;
  std::byte* to;
  int64_t to_step;
  int64_t count;
};

// Elements side by side, each combined with all before it; `reverse`: with all behind it.
struct ScannedLine {
  const std::byte* from;
  std::byte* to;
  int64_t count;
  bool reverse;
};

// What elements of a type are combined as, and how. Lanes are neighbours in a row; of each the
// bytes behind `so_far` hold what has been combined, `fold_size` a lane.
struct CumulativeRows {
  int64_t fold_size = 0;  // 4 or 8

  // f32, f64, s32 or s64: what `begin`, `add` and `scan` take; other types are converted.
  DType wide = DType::f32;
  // Null where nothing is converted.
  void (*widen)(const std::byte* from, int64_t count, std::byte* to) = nullptr;
  void (*narrow)(const std::byte* from, int64_t count, std::byte* to) = nullptr;
  void (*begin)(const std::byte* init, int64_t lanes, std::byte* so_far) = nullptr;
  void (*add)(const FoldedRows& rows, int64_t lanes, const std::byte* init,
              std::byte* so_far) = nullptr;
  // One lane along memory: neighbours are combined first, so that sums are rounded in an order of
  // their own, which depends on nothing but an element's place in the line.
  void (*scan)(const ScannedLine& line, const std::byte* init, std::byte* so_far) = nullptr;
};

// Copies rows of `bytes`, `to` past the caches: of large results. flush_stream() ends it.
using StreamRows = void (*)(const std::byte* from, int64_t from_step, std::byte* to,
                            int64_t to_step, int64_t bytes, int64_t rows);
StreamRows stream_rows_function();

// `plain`: folds begin with the initial value; else it is combined with each result, as where sums
// of floats begin with anything but their identity. `add` is null where the type has no such
// combiner.
CumulativeRows cumulative_rows(Combiner combiner, DType dtype, bool plain);

}  // namespace gspmd
