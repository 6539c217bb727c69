#pragma once

// Fusing elementwise chains.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Groups elementwise nodes over the same dims (with the broadcasts and scalar constants they read)
// into kLoop fusions, several outputs allowed, so that intermediate values never reach memory.
// Convex: no path leaves a fusion and comes back.
GSPMD_API bool fuse(Module& local);

}  // namespace gspmd
