#pragma once

#include "gspmd/ir/module.h"
#include "gspmd/passes/graph/device_model.h"

namespace gspmd {

// What one instruction takes in one run, what it calls left out but for fusions.
struct NodeCost {
  double flops = 0, bytes = 0;  // computed; read and written in memory
};
NodeCost cost_of(const Node& node);
// The slower of arithmetic and memory.
double seconds_of(const NodeCost& cost, const DeviceModel& device = {});

}  // namespace gspmd
