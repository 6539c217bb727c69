#pragma once

// Instructions that do something beside giving a value: they run though nobody reads them.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// What debug_print(), debug_check() and the option check_numbers are: custom-calls with these
// targets, of any arrays; the result is pred[] and means nothing.
inline constexpr const char* kDebugPrint = "gspmd.debug_print";
inline constexpr const char* kDebugCheck = "gspmd.debug_check";  // of pred and what it says
// Of an array, and of pred[] that say whether what it was made of is finite.
inline constexpr const char* kCheckNumbers = "gspmd.check_numbers";
GSPMD_API bool is_debug_call(const Node& node);  // Of one of these targets.

// Set on an instruction whose place another has taken, effects included.
inline constexpr const char* kReplaced = "gspmd.replaced";

// Whether the instruction runs though nobody reads it: its opcode says so (kSideEffect), or it is a
// debug call, or sets a size that is not known to be the full one (which ends the run), or is a
// loop, branch or call with one inside.
GSPMD_API bool has_side_effect(const Node& node);
// What runs: the root, where there is one, the nodes that have a side effect, and what they need.
GSPMD_API FlatSet<const Node*> running_nodes(const Computation& computation);

}  // namespace gspmd
