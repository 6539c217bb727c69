#pragma once

// Values made again where they are read late, so that a program fits in less memory.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/passes/memory/plan_memory.h"
#include "gspmd/passes/memory/recomputation.h"

namespace gspmd {

// What recompute() gives.
struct RecomputeResult {
  std::unique_ptr<Module> program;                 // nullptr: as it was
  std::vector<Recomputation> recomputations = {};  // in the order in which they were chosen
};

// Where the plan's peak is above `limit` bytes, makes values again behind the peak, those first
// whose recomputation takes the least time per byte that is freed, with what they are made of where
// that is not there any more, until the plan fits or nothing helps. Collectives, loops, calls,
// branches, custom-calls and what has side effects never run twice; results are the same bits. Of a
// per-device program as it runs, bytes of one device. Where nothing brings the peak down, it stays
// as it is. UserError as plan_memory() has it. After XLA's rematerialization
// (HloRematerialization).
GSPMD_API RecomputeResult recompute(const Module& program, int64_t limit,
                                    const PlanOptions& options = {});

}  // namespace gspmd
