#pragma once

// Where every value lives, found before the run.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/base/site.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/passes/memory/memory_plan.h"

namespace gspmd {

// What the plan keeps free.
struct PlanOptions {
  int64_t guard_bytes = 0;  // unused bytes behind every arena buffer; a multiple of 64
  // Extra scratch in bytes while a node runs (library scratch); by node id.
  std::map<int64_t, int64_t> scratch = {};
};

// Liveness over the program tree (entry, while bodies, calls) in node order, in-place reuse
// (elementwise, dynamic-update-slice, scatter onto a dying operand), donation by module.aliases,
// loop-carried buffers, which others use while they hold nothing; then best-fit offsets.
// Deterministic.
GSPMD_API MemoryPlan plan_memory(const Module& local, const PlanOptions& options = {});

// UserError where the plan's peak is above `limit` bytes: the numbers, the op at the peak, and the
// largest tensors with the lines of the user's program that made them. `what` begins the message.
GSPMD_API void check_memory_limit(const MemoryPlan& plan, int64_t limit, const std::string& what,
                                  Site site = {});

}  // namespace gspmd
