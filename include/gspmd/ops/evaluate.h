#pragma once

// The reference interpreter.

#include <span>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/op.h"

namespace gspmd {

// The oracle: runs the entry (or a computation) node by node with the ops' reference kernels.
// ExecutionError names the node. Collectives and partition-id have no meaning here: UserError.
GSPMD_API Value evaluate(const Module& module, std::span<const Value> arguments);
GSPMD_API Value evaluate(const Computation& computation, std::span<const Value> arguments);

// D copies of a per-device module in lockstep, collectives combined in device order:
// arguments[device][parameter] -> result[device]. Reference for partitioned programs.
GSPMD_API std::vector<Value> evaluate_devices(const Module& module, int64_t num_devices,
                                              const std::vector<std::vector<Value>>& arguments);

// Whether a run is exact (docs/spec/running.md 3.1): each op integer-preserving on integers with
// every sum |a||b| below the dtype's bound. Runs the module; `result` gets the value when not null.
GSPMD_API bool is_exact(const Module& module, std::span<const Value> arguments,
                        Value* result = nullptr);

}  // namespace gspmd
