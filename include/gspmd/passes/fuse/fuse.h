#pragma once

// Fusing elementwise chains, products and what is between them.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Groups elementwise nodes over the same dims (with the broadcasts and scalar constants they read)
// into kLoop fusions, several outputs allowed, so that intermediate values never reach memory.
// Before that, products and the loops between them become kCustom fusions where what is between
// them need not be in memory (attention; docs/design/0047), and transposes around products kOutput
// fusions. Convex: no path leaves a fusion and comes back.
GSPMD_API bool fuse(Module& local);

}  // namespace gspmd
