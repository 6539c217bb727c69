#pragma once

// What manual regions mean without the partitioner.

#include <memory>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Whether the module has manual regions (custom-calls SPMDFullToShardShape and
// SPMDShardToFullShape).
GSPMD_API bool has_manual_regions(const Module& module);

// What a completed module with manual regions means, without the partitioner: a program of
// num_partitions copies in which every device computes whole values outside of the regions, cuts
// its own shard out where one starts, and gathers where it ends (zeros behind what does not
// divide). For `evaluate_devices`; each device returns the whole result. UserError where a region's
// border has no sharding.
GSPMD_API std::unique_ptr<Module> copies_with_regions(const Module& completed);

}  // namespace gspmd
