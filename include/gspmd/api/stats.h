#pragma once

// What a compiled program does, found without running it.

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/memory/held_tensor.h"
#include "gspmd/passes/memory/recomputation.h"
#include "gspmd/passes/partition/full_rematerialization.h"
#include "gspmd/passes/pass_time.h"
#include "gspmd/runtime/evaluated_step.h"

namespace gspmd {

// What a compiled program does, found without running it. Prints as a table.
struct ExecutableStats {
  int64_t num_devices = 1;                   // of the mesh
  std::vector<CollectiveStats> collectives;  // of the program that runs (combined)
  std::vector<CollectiveStats> uncombined;   // before combining: one entry per cause
  // Values gathered whole and split again for want of a direct way.
  std::vector<FullRematerialization> full_rematerializations;
  int64_t collective_count = 0;      // totals of `collectives`
  int64_t collective_bytes = 0;      // one device sends
  int64_t flops = 0;                 // one device, from shapes
  int64_t predicted_peak_bytes = 0;  // one device: arena, parameters, constants, undonated results
  int64_t arena_bytes = 0;           // one device: planned for values, and what a run allocates
  // Values made again where they are read late, to stay below CompileOptions::memory_limit; `flops`
  // does not have theirs.
  std::vector<Recomputation> recomputations;
  // What has no kernel and runs element by element, on one worker; empty when not prepared. Debug
  // calls and single elements do not count.
  std::vector<EvaluatedStep> evaluated;
  int64_t peak_live_bytes = 0;  // one device: of the arena's values at its highest point
  int64_t parameter_bytes = 0;  // one device
  int64_t scratch_bytes = 0;    // one worker thread, of library kernels; 0 when not prepared
  std::string peak_op;          // instruction at the arena's highest point
  std::vector<HeldTensor> peak_tensors;   // what one device holds then, largest first
  std::vector<PassTime> compile_seconds;  // by pass, in order
  double total_compile_seconds = 0;       // of all passes
};

GSPMD_API std::string to_string(const ExecutableStats& stats);  // a table for people
// One object, one line; keys as the members.
GSPMD_API std::string to_json(const ExecutableStats& stats);

}  // namespace gspmd

template <>
struct fmt::formatter<gspmd::ExecutableStats> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const gspmd::ExecutableStats& value, Context& context) const {
    return fmt::format_to(context.out(), "{}", gspmd::to_string(value));
  }
};
