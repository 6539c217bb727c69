#pragma once

// How much a program computes, moves and sends.

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/graph/device_model.h"

namespace gspmd {

// Of one device and one run of a per-device program, loops counted where their trip count is known.
struct CostEstimate {
  double flops = 0;             // floating-point operations
  double memory_bytes = 0;      // operands and results of every op, as if nothing stayed in cache
  double collective_bytes = 0;  // sent, as docs/spec/command.md 4.5 counts
  double collectives = 0;       // number of collectives run
  double seconds = 0;  // each op the slower of arithmetic and memory; collectives after each other
};

// Of a per-device program; of a conditional all branches count.
GSPMD_API CostEstimate estimate_cost(const Module& local, const DeviceModel& device = {});

// The flops and bytes of a per-device program at least: where it branches the least of the
// branches, of loops without a known trip count one run.
CostEstimate least_cost(const Module& local);

}  // namespace gspmd
