#pragma once

// Inlining calls.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Replaces call and fusion nodes by what they compute, to any depth. Shardings of the call node go
// to the inlined root where that has none.
GSPMD_API bool inline_calls(Module& module);

}  // namespace gspmd
