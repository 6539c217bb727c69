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

// Only flops and memory_bytes, the rest 0: what a per-device program does at least. Where it
// branches the least of the branches counts, of loops without a known trip count one run.
GSPMD_API CostEstimate least_cost(const Module& local);

}  // namespace gspmd
