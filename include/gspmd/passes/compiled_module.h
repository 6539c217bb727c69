#pragma once

// What the compiler makes of a module.

#include <cstdint>
#include <memory>
#include <vector>

#include "gspmd/ir/module_fwd.h"
#include "gspmd/passes/memory/memory_plan.h"
#include "gspmd/passes/memory/recomputation.h"
#include "gspmd/passes/partition/full_rematerialization.h"
#include "gspmd/passes/pass_time.h"

namespace gspmd {

// The module at four stages, and what to know of it.
struct CompiledModule {
  std::unique_ptr<Module> completed;      // global shapes, every sharding known
  std::unique_ptr<Module> uncombined;     // per-device, before combining; nullptr: not kept
  std::unique_ptr<Module> local;          // per-device, combined; before fusing
  std::shared_ptr<const Module> program;  // what runs
  int64_t sharded_updates = 0;            // as shard_updates() returned
  MemoryPlan plan;  // of the program; no places where plan-memory was disabled
  std::vector<Recomputation> recomputations;  // what is made again to stay below memory_limit
  std::vector<FullRematerialization> full_rematerializations;  // as PartitionResult has them
  std::vector<PassTime> seconds;                               // one per pass, in order
};

}  // namespace gspmd
