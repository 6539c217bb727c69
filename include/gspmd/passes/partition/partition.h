#pragma once

// From a completed module to the one program of every device.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// Replicate-then-slice where no direct way was found: the complaint to be able to explain.
struct FullRematerialization {
  std::string tensor;    // the value that is moved
  std::string shape;     // "f32[8,16]"
  std::string from, to;  // shardings
  std::string op;        // the reader that needed it
  std::string source;    // file:line, may be empty
  std::string avoid;     // annotations of either side, tried, that need none; empty: none was found
};

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
