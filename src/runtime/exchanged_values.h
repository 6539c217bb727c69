#pragma once

#include "runtime/program.h"
#include "runtime/shared_values.h"

namespace gspmd {

// Lets one device of those that an all-gather or all-reduce gives the same keep it, and the others
// read it there, where nobody writes into its place before all have: the memory plan stays as it
// is. Results of the program that are made so are parts of one device for all.
void share_exchanged(Program& program, const SharedValues& values);

}  // namespace gspmd
