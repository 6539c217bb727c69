#pragma once

// Operations that text begins and ends apart.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Replaces what is begun and ended apart by the one operation that it is: all-reduce-start and
// all-reduce-done by all-reduce, likewise all-gather, collective-permute and copy, and async-start,
// async-update and async-done by a call of their computation. None is left: what ends in another
// computation, handed there through a loop or a call, is made where it begins. Values are the same.
// Returns whether anything changed.
GSPMD_API bool join_async(Module& module);

}  // namespace gspmd
