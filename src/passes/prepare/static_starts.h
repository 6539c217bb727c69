#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Of completed modules. Where a dim is cut at a constant start, and both the whole and the part
// split it, dynamic slices become slices, and dynamic updates a selection from the padded update:
// shards then exchange what crosses, where a start known only later has to gather or sum. Starts
// are clamped as HLO's are; names and annotations are kept. Returns whether anything changed.
bool use_static_starts(Module& module);
// Whether there are such slices or updates at all: if not, it changes nothing.
bool may_use_static_starts(const Module& module);

}  // namespace gspmd
