#pragma once

// From a completed module to the one program of every device.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/passes/partition/full_rematerialization.h"

namespace gspmd {

// Where the value of a node of the completed module is in the per-device module: maybe as partial
// sums (unreduced). A node has one per call of its computation from differently sharded places.
struct PartitionedValue {
  int64_t global = 0, local = 0;  // node ids
  Sharding sharding;              // of `local`
};

// What the program is for.
struct PartitionOptions {
  int64_t num_devices = 1;  // of the mesh
  // For tests: where a device has no part of a value, the program makes NaN, the largest integer or
  // the opposite truth value of it, so that what reads it there by mistake shows.
  bool poison_absent = false;
};

// The program, and what to know of it.
struct PartitionResult {
  std::unique_ptr<Module> module;  // one program for every device, shard shapes
  std::vector<FullRematerialization> full_rematerializations;  // one per value and reader
  std::vector<PartitionedValue> values;  // in the order in which nodes were partitioned
};

// The per-device SPMD program of a completed module (arXiv:2105.04663, 4). The entry keeps its
// parameters and results, with shard shapes; unsharded nodes count as replicated. UserError where
// an op or sharding is not supported. Work does not depend on the number of devices.
GSPMD_API PartitionResult partition(const Module& module, const PartitionOptions& options);

}  // namespace gspmd
