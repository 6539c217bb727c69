#pragma once

// Finding where numbers stop being finite.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Puts a debug call behind every operation on floating numbers of a program that is not partitioned
// yet, loops and branches included. A run ends with an ExecutionError at the first operation that
// makes a NaN or an infinity of finite numbers: it names the operation, its line, the device and
// the element. What is not finite before, such as the minus infinity of a mask, may be read.
GSPMD_API void insert_number_checks(Module& module);

}  // namespace gspmd
