#pragma once

// Completion by Shardy's rules, and what the dialect `sdy` says in HLO.

#include <cstdint>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"

namespace gspmd {

// Which part of Shardy's completion runs.
enum class ShardyPass : uint8_t {
  pipeline,       // all of it, with what stands before and after propagation
  basic,          // one fixed point, conflicts stop a factor everywhere
  aggressive,     // one fixed point, conflicts stop a factor where they are
  op_priority,    // the rounds of op priorities
  user_priority,  // the rounds of user priorities around them
  rules,          // writes each op's rule on it and completes nothing
};

// How Shardy's completion runs.
struct ShardyOptions {
  ShardyPass pass = ShardyPass::pipeline;  // all, or one part
  bool conservative = false;    // axes are not split, and nothing propagates that would move data
  bool op_priorities = true;    // of the pipeline
  bool user_priorities = true;  // of the pipeline
  bool origins = false;         // Origins are recorded on the nodes
};

// Whether the module says its shardings in `sdy`: meshes, or an attribute or call of the dialect.
GSPMD_API bool says_sdy(const Module& module);

// Devices of its meshes; 0: it has none.
GSPMD_API int64_t sdy_devices(const Module& module);

// Completes the module by Shardy's rules (docs/spec/completion.md 10). What it says in `sdy` stays
// and is completed: every op's sharding in the attribute sdy.sharding, parameters' in
// xla.sdy.sharding, results' in calls of xla.sdy.FuncResultSharding. Every node has the sharding in
// the library's form too. Shardings in HLO's form count where the module says nothing in `sdy`.
// UserError with a node's place. Returns whether anything changed.
GSPMD_API bool propagate_shardy(Module& module, const ShardyOptions& options = {});

// Whether propagate_shardy() completed the module, which then has its shardings in both forms.
GSPMD_API bool is_completed_in_sdy(const Module& module);
// Takes HLO's form from a module that was completed, for printing in the dialect.
GSPMD_API void keep_sdy_only(Module& module);

// Writes what the module says in `sdy` in HLO's form, nothing completed, and takes the dialect out:
// constraints are Sharding calls, manual computations regions between SPMDFullToShardShape and
// SPMDShardToFullShape. UserError where HLO has no word for it. Returns whether there was any.
GSPMD_API bool lower_sdy(Module& module);

}  // namespace gspmd
