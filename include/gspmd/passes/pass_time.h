#pragma once

// The passes of the compiler by name.

#include <string>
#include <vector>

#include "gspmd/base/export.h"

namespace gspmd {

// How long one pass took.
struct PassTime {
  std::string pass;    // as in pass_names()
  double seconds = 0;  // wall clock
};

GSPMD_API std::vector<std::string> pass_names();  // in the order in which they run

}  // namespace gspmd
