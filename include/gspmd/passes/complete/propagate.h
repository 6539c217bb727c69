#pragma once

// Completing shardings from the annotated ones.

#include <cstdint>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/passes/shardy/propagate_shardy.h"

namespace gspmd {

// How much work completion was.
struct PropagateStats {
  int64_t sweeps = 0;  // over all computations, all levels together
};

// Whose rules complete the shardings. `automatic`: Shardy's where the module says its shardings in
// the dialect `sdy`, else GSPMD's.
enum class Strategy : uint8_t { automatic, gspmd, shardy };

// What completion may change.
struct PropagateOptions {
  Strategy strategy = Strategy::automatic;  // whose rules
  ShardyOptions shardy = {};                // of Shardy's rules, which use nothing below
  bool spmd = true;                         // false: the rules for modules that are not partitioned
  // One value for all, or one per root-tuple element / entry parameter. Empty: taken from the
  // module's frontend attributes gspmd.open_outputs / gspmd.open_parameters, else from its header's
  // allow_spmd_sharding_propagation_to_{output,parameters}, absent = none.
  std::vector<bool> allow_output = {};
  std::vector<bool> allow_parameters = {};  // as allow_output, of entry parameters
  // Boundary shardings that completion found but that do not divide become replicated (imported
  // modules, docs/spec/completion.md 2.1). Traced programs keep uneven ones.
  bool replicate_indivisible_boundary = true;
  // The module stays as it is but for broadcasts of scalars without a sharding, which get the one
  // of a completion: CSE then does not join those that are laid out differently. They are marked as
  // no annotations, and a later run drops them (docs/spec/completion.md 1.3).
  bool cse_prevention_only = false;
  PropagateStats* stats = nullptr;  // filled where given
};

// Completes the sharding of every node from the annotated ones, in place (docs/spec/completion.md;
// arXiv:2105.04663, 3.5), by GSPMD's rules or by Shardy's (propagate_shardy). Given shardings are
// never changed, except on their open dims. Sharding custom-calls become copies. Those with the
// frontend attribute gspmd.priority="N" are heard after all of smaller numbers (absent: 0) have
// been carried as far as they reach. Records Origins. Idempotent. Returns whether anything changed.
GSPMD_API bool propagate(Module& module, const PropagateOptions& options = {});
// Whether propagate() would follow Shardy's rules.
GSPMD_API bool uses_shardy(const Module& module, const PropagateOptions& options);

}  // namespace gspmd
