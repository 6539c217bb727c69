#pragma once

// What one run of a program did and when, device by device.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/mesh/mesh.h"

namespace gspmd {

// A place in a program that takes time.
struct TraceSite {
  // What it is.
  enum Kind : uint8_t { op, collective, loop, branch };
  Kind kind = op;          // a loop or branch contains the events of its computations
  std::string name;        // of the instruction
  std::string opcode;      // "fusion"; "copy" where a value is put into place
  std::string op_name;     // the user's name of it, where there is one
  std::string shape;       // of its result, on one device
  std::string source;      // "file:line" of the user's program, where it is known
  int64_t bytes = 0;       // read and written; of a collective: that one device sends
  int64_t live_bytes = 0;  // of values in the arena at that time, as planned
  std::string groups;      // of a collective: replica groups
  std::string axes;        // of a collective: names of mesh axes, where a mesh is known
};

// Something that a device did. Times are nanoseconds from the beginning of the run.
struct TraceEvent {
  int64_t site = 0;            // index of RunTrace::sites
  int64_t device = 0;          // whose track it is on
  int64_t begin = 0, end = 0;  // of a collective: from where the device waits for the others
  int64_t waited = 0;          // nanoseconds from `begin` that a collective waited
};

// A run, recorded where Executor::run is given one. Devices that share a worker thread take turns:
// while one computes, the others wait.
struct RunTrace {
  std::optional<Mesh> mesh = {};        // set before the run: names the axes of collectives
  int64_t max_events = 400'000;         // set before the run: then those inside loops are dropped
  int64_t num_devices = 0;              // tracks
  int64_t peak_live_bytes = 0;          // of the arena, on each device, as planned
  std::vector<TraceSite> sites = {};    // in program order by kind
  std::vector<TraceEvent> events = {};  // by device and begin; an outer one before those inside
  int64_t dropped = 0;                  // how many were
};

}  // namespace gspmd
