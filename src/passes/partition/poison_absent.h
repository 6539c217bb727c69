#pragma once

#include <span>

#include "gspmd/ir/module.h"
#include "gspmd/passes/partition/partition.h"

namespace gspmd {

// For tests: a device that has a local value in none of its `layouts` gets poison in its place, a
// NaN, the largest integer or the opposite truth value, so that what reads it there by mistake
// shows. Returns whether anything was changed.
bool poison_absent(Module& local, std::span<const PartitionedValue> layouts, int64_t num_devices);

}  // namespace gspmd
