#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Brings a per-device module into the form that runs: calls inlined, each loop with a condition and
// body of its own, and a copy where a state leaf or donated parameter would move to another place
// (a swap).
void normalize(Module& module);

}  // namespace gspmd
