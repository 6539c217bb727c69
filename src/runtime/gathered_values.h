#pragma once

#include "runtime/program.h"
#include "runtime/shared_values.h"

namespace gspmd {

// Lets one device of those that an all-gather gives the same keep it, and the others read it there,
// where nobody writes into its place before all have: the memory plan stays as it is.
void share_gathered(Program& program, const SharedValues& values);

}  // namespace gspmd
