#pragma once

// Clean-up of modules.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Merges nodes that compute the same value (same opcode, operands, attributes, shape, sharding),
// within one phase only: a backward all-gather is not merged with a forward one unless
// `across_phases`.
GSPMD_API bool eliminate_common_subexpressions(Module& module, bool across_phases = false);

// Removes what neither results nor side effects need. Returns whether anything changed.
GSPMD_API bool eliminate_dead_code(Module& module);

// Local rewrites that never change a result: identities (x+0, x*1,
// convert/reshape/transpose/broadcast/ slice/copy chains and no-ops), tuple/get-tuple-element,
// constant folding of small scalars.
GSPMD_API bool simplify_algebra(Module& module);

// all-reduce whose only readers slice it by this device's tile -> reduce-scatter.
GSPMD_API bool rewrite_reduce_scatter(Module& module);

}  // namespace gspmd
