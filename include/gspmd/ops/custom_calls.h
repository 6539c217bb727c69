#pragma once

// Which custom-calls the library knows.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Whether the library knows what a custom-call does. One that it does not know is kept as it is: it
// reads whole values on every device, and cannot run.
GSPMD_API bool is_known_call(const Node& custom_call);

}  // namespace gspmd
