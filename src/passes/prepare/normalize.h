#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Brings a per-device module, its calls inlined, into the form that runs: every computation of a
// loop or conditional called by that one alone, none that nobody calls; and a copy where a state
// leaf or donated parameter would move to another place (a swap).
void normalize(Module& module);

}  // namespace gspmd
