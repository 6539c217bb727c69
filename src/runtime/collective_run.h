#pragma once

#include <memory>

#include "gspmd/runtime/processes.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"
#include "runtime/claims.h"
#include "runtime/program.h"

namespace gspmd {

// Groups, geometry and combiner of a collective, made when the program is built. UserError where a
// group names a device that is not there.
CollectiveStep prepare_collective(const Node& node, int64_t num_devices, bool reference);

// What the workers share while they run one collective: argument tables of the devices, of which
// those of other processes have the operands that are read here, and who is active.
struct CollectiveArgs {
  const std::vector<std::vector<std::byte*>>* tables = nullptr;  // [device][argument]
  const std::vector<char>* active = nullptr;
  int64_t num_devices = 1;
  DeviceRange local = {0, 1};  // devices of this process
  Claims* claims = nullptr;    // of all workers; this collective is a round
  uint32_t round = 0;
  bool shares = false;                      // results go only to devices that need them
  const std::vector<char>* done = nullptr;  // by group: results are there; nullptr: of none
};

// An operand seen as outer x (members x row) bytes around the collective's dim.
struct Rows {
  int64_t outer = 1;
  int64_t row = 0;  // bytes of one member's piece of one outer step
};
Rows rows_of(const Shape& shape, int64_t dim, int64_t pieces);

// What combines two members' values, element by element; 16-bit floats as f32. nullptr: none of the
// loops' does.
LoopFunction combining_function(const Node& node, DType stored);

// ExecutionError unless every group is wholly inside the active devices or wholly outside.
void check_active(const CollectiveStep& step, const CollectiveArgs& args);
// What one worker takes of it, piece by piece. Results do not depend on how many there are.
void run_collective(const CollectiveStep& step, const CollectiveArgs& args, int worker);
// Bytes that all active devices read from other devices' shards.
int64_t bytes_received(const CollectiveStep& step, const CollectiveArgs& args);

}  // namespace gspmd
