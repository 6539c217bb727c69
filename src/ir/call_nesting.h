#pragma once

#include <cstdint>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Passes and evaluators recurse into what a node calls, and a file must not exhaust the stack.
constexpr int64_t kDeepestCalls = 500;

// The computations that `entry` reaches, callees first. UserError where one calls itself, or where
// calls of any op nest deeper than kDeepestCalls.
std::vector<const Computation*> check_call_depth(const Computation& entry);

// UserError where a computation calls itself, where loops and branches nest deeper than
// kDeepestCalls with calls written out, or where one has more instructions than can be worked on,
// calls written out and each loop and branch with a body of its own: a chain of n calls of "twice
// the one before" is 2^n.
void check_nesting(const Module& module);

}  // namespace gspmd
