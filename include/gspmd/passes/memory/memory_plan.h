#pragma once

// Where all values of a program live.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/passes/memory/held_tensor.h"

namespace gspmd {

// The storage of one device.
struct MemoryPlan {
  std::map<std::pair<int64_t, int64_t>, BufferPlace> places;          // (node id, leaf)
  int64_t arena_bytes = 0;                                            // per device
  int64_t parameter_bytes = 0, output_bytes = 0, constant_bytes = 0;  // outputs: those not donated
  int64_t peak_bytes = 0;                                             // all of the above
  // By node id: what the arena's values take while it runs, each rounded as it is placed; and the
  // most.
  std::map<int64_t, int64_t> live_bytes;
  int64_t peak_live_bytes = 0;  // at most arena_bytes: gaps between buffers are not counted
  std::string peak_op;          // at the arena's highest live point
  // What a device holds then, largest first: the arena's, parameters, results that are not donated,
  // constants.
  std::vector<HeldTensor> peak_tensors;
};

}  // namespace gspmd
