#pragma once

// Rewrites of per-device programs that save collectives.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Rewrites of a per-device module that save collectives. Each returns whether anything changed.
// Sums are associated anew: only exact results (docs/spec/running.md 3.1) keep their bits.

// Collectives of equal kind and groups whose only reader adds them become one collective of the
// sum: all-reduce(x) + all-reduce(y) = all-reduce(x + y), over chains of additions; reduce-scatter
// alike.
GSPMD_API bool reassociate_collectives(Module& module);

// A loop that only adds all-reduced values to an element of its state, or floating linear functions
// of them (negated, times or by constants, in a wider type), adds them up on each device, and
// all-reduces once after it (gradient accumulation over microbatches).
GSPMD_API bool sink_all_reduces(Module& module);

// Collectives in a loop on values that no iteration changes run once, before it. A loop holds at
// most `limit_bytes` (per device) of such results.
GSPMD_API bool hoist_collectives(Module& module, int64_t limit_bytes = int64_t{1} << 28);

}  // namespace gspmd
