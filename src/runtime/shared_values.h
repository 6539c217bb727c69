#pragma once

#include <vector>

#include "gspmd/base/flat_map.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/executor.h"

namespace gspmd {

// By device, the first of those that have the same value.
using Replicas = std::vector<int64_t>;

// Devices whose parts of an array that lies so are the same.
Replicas replicas_of(const Shape& global, const Sharding& sharding, int64_t num_devices);

// What is made and kept once for all devices that have the same of it, where they share memory:
// donated state, such as weights and what an optimizer keeps with them, and what only its new value
// is made from. Other values stay in each device's own memory, also where they are the same, but
// what exchanges give (share_exchanged).
struct SharedValues {
  FlatMap<const Node*, Replicas> nodes;     // of the entry: steps and all-reduces
  std::vector<Replicas> results;            // by result leaf; empty: each device has its own
  FlatMap<const Node*, int64_t> divisions;  // of the entry: as which of `replicas`
  std::vector<Replicas> replicas;

  // Devices that have the same of a value of the entry; nullptr: nobody knows.
  const Replicas* same(const Node* value) const {
    const int64_t* const division = divisions.find(value);
    return division == nullptr ? nullptr : &replicas[static_cast<size_t>(*division)];
  }
};

// Of a module with flat parameters and results. Parameters of which it is not known how they lie
// are different on each device.
SharedValues find_shared_values(const CompiledModule& compiled, const ProgramOptions& options);

}  // namespace gspmd
