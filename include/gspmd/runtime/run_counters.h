#pragma once

// What runs of a program did, counted.

#include <cstdint>

namespace gspmd {

// What was done so far.
struct RunCounters {
  int64_t runs = 0;            // of the program, from its beginning to its end
  int64_t arena_bytes = 0;     // per device
  int64_t bytes_received = 0;  // all devices, read from other devices' shards
  int64_t bytes_across = 0;    // all processes, sent from one to another by collectives
  int64_t collectives = 0;     // run so far, of all runs
  int64_t overlapped = 0;      // of these, between processes while devices computed
};

}  // namespace gspmd
