#pragma once

#include <memory>

#include "runtime/program.h"

namespace gspmd {

// Groups, geometry and combiner of a collective, made when the program is built. UserError where a
// group names a device that is not there.
CollectiveStep prepare_collective(const Node& node, int64_t num_devices, bool reference);

// What the workers share while they run one collective: argument tables of the devices and who is
// active.
struct CollectiveArgs {
  const std::vector<std::vector<std::byte*>>* tables = nullptr;  // [device][argument]
  const std::vector<char>* active = nullptr;
  int64_t num_devices = 1;
  int workers = 1;
};

// ExecutionError unless every group is wholly inside the active devices or wholly outside.
void check_active(const CollectiveStep& step, const CollectiveArgs& args);
// One worker's share; shares are disjoint and results do not depend on how many there are.
void run_collective(const CollectiveStep& step, const CollectiveArgs& args, int worker);
// Bytes that all active devices read from other devices' shards.
int64_t bytes_received(const CollectiveStep& step, const CollectiveArgs& args);

}  // namespace gspmd
