#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Brings a per-device module into the form that runs: calls inlined, and fusions that only the
// executor can run; every computation of a loop or conditional called by that one alone, none that
// nobody calls; and a copy where a state leaf or donated parameter would move to another place (a
// swap).
void normalize(Module& module);

}  // namespace gspmd
