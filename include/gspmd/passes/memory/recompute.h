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

namespace gspmd {

// A value that is made a second time instead of being kept.
struct Recomputation {
  std::string name;    // of the instruction that made it first
  Shape shape;         // on one device
  std::string before;  // the instruction that reads it made again; others may follow
  int64_t bytes = 0;   // that are free on one device meanwhile
  double flops = 0;    // of one device, that are spent again; 0 where it is only made later
  std::string source;  // "file:line" of the user's program; empty where it is not known
};
// "gelu.3 f32[64,64] again before dot.9: 16384 bytes less for 4096 FLOPs (model.cpp:12)".
GSPMD_API std::string to_string(const Recomputation& recomputation);

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
