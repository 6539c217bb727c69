#pragma once

#include <map>
#include <string>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Where one leaf of one node's value lives.
struct BufferPlace {
  enum Kind : uint8_t { arena, parameter, output, constant } kind = arena;
  int64_t offset = 0;  // arena: bytes from the start, 64-aligned
  int64_t index = 0;   // parameter: flat entry parameter leaf; output: flat result leaf
  int64_t bytes = 0;
};

struct MemoryPlan {
  std::map<std::pair<int64_t, int64_t>, BufferPlace> places;          // (node id, leaf)
  int64_t arena_bytes = 0;                                            // per device
  int64_t parameter_bytes = 0, output_bytes = 0, constant_bytes = 0;  // outputs: those not donated
  int64_t peak_bytes = 0;                                             // all of the above
  std::string peak_op;                    // at the arena's highest live point
  std::vector<std::string> peak_tensors;  // "name f32[..] bytes", largest first
};

struct PlanOptions {
  // Extra scratch in bytes while a node runs (library scratch); by node id.
  std::map<int64_t, int64_t> scratch;
};

// Liveness over the program tree (entry, while bodies, calls) in node order, in-place reuse
// (elementwise, dynamic-update-slice, scatter onto a dying operand), donation by module.aliases,
// loop-carried buffers; then best-fit offsets. Deterministic.
MemoryPlan plan_memory(const Module& local, const PlanOptions& options = {});

}  // namespace gspmd
