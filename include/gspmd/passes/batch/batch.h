#pragma once

// A function on many arguments at once.

#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/batch_context.h"

namespace gspmd {

// How a function is batched.
struct BatchOptions {
  int64_t size = 1;  // of the batch
  // The mesh axis that annotations inside of the function split the batch over; empty: they leave
  // it open.
  std::string mesh_axis = {};
};

// Emits what `source` does behind the nodes of `into`, once for the whole batch. `arguments`:
// leaves of the parameters of `source`, nodes of `into`. Returns the leaves of its result. What
// does not depend on the batch is computed once. UserError: an op that has no rule, a layout that
// uses `mesh_axis` (names op and line).
GSPMD_API std::vector<BatchLeaf> batch(const Computation& source, Computation& into,
                                       const std::vector<BatchLeaf>& arguments,
                                       const BatchOptions& options);

}  // namespace gspmd
