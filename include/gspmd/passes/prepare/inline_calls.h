#pragma once

// Inlining calls.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// What becomes of fusions: a per-device program runs one as a kernel, unless it asks which device
// it is on or has control flow.
enum class Fusions : uint8_t { inlined, kernels };

// Replaces call and fusion nodes by what they compute, to any depth. Shardings of the call node go
// to the inlined root where that has none. Returns whether anything changed.
GSPMD_API bool inline_calls(Module& module, Fusions fusions = Fusions::inlined);

}  // namespace gspmd
