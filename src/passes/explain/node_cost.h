#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// What one instruction takes in one run, what it calls left out but for fusions.
struct NodeCost {
  double flops = 0, bytes = 0;  // computed; read and written in memory
};
NodeCost cost_of(const Node& node);

}  // namespace gspmd
