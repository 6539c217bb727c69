#pragma once

// Collectives that go on while devices compute.

#include <cstdint>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"

namespace gspmd {

// Which collectives begin and end apart.
struct ScheduleOptions {
  // By device: the process that hosts it. Empty: one process has all of them.
  std::vector<int64_t> process_of = {};
  // Collectives between their start and their done at any time, at least 1: bounds what their
  // operands and results take.
  int64_t in_flight = 4;
};

// Splits all-reduces, all-gathers and collective-permutes between processes into HLO's pairs of
// start and done: the start stands right behind what makes its operands, the done right before the
// first that reads the result, or where one more would be in flight. Other instructions keep their
// order; pairs without computation between them stay one instruction. The same program gives the
// same order in every process. Returns whether there is a pair; never in one process.
// docs/design/0038
GSPMD_API bool schedule_collectives(Module& program, const ScheduleOptions& options);

}  // namespace gspmd
