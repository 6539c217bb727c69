#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Replicate-then-slice where no direct way was found: the complaint to be able to explain.
struct FullRematerialization {
  std::string tensor;    // user's or node's name
  std::string shape;     // "f32[8,16]"
  std::string from, to;  // shardings
  std::string op;        // the reader that needed it
  std::string source;    // file:line, may be empty
};

// Where the value of a node of the completed module is in the per-device module: maybe as partial
// sums (unreduced). A node has one per call of its computation from differently sharded places.
struct PartitionedValue {
  int64_t global = 0, local = 0;  // node ids
  Sharding sharding;
};

struct PartitionOptions {
  int64_t num_devices = 1;
};

struct PartitionResult {
  std::unique_ptr<Module> module;  // one program for every device, shard shapes
  std::vector<FullRematerialization> full_rematerializations;
  std::vector<PartitionedValue> values;  // in the order in which nodes were partitioned
};

// The per-device SPMD program of a completed module (arXiv:2105.04663, 4). The entry keeps its
// parameters and results, with shard shapes; unsharded nodes count as replicated. UserError where
// an op or sharding is not supported. Work does not depend on the number of devices.
GSPMD_API PartitionResult partition(const Module& module, const PartitionOptions& options);

}  // namespace gspmd
