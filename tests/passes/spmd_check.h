#pragma once

#include <string>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd::testing {

// Small integers -4..4 in every entry parameter, by seed; exact in any order of summation.
std::vector<Value> integer_arguments(const Module& module, uint64_t seed);

// Splits arguments by the completed parameter shardings (poisoned tails: NaN, 0x80.. and 0), runs
// the per-device program on the reference interpreter, joins the results.
Value run_partitioned(const CompiledModule& compiled, int64_t num_devices,
                      const std::vector<Value>& arguments);

// Empty when the partitioned program computes bit for bit what the whole module computes, else a
// description with the module and program texts.
std::string difference_when_partitioned(const Module& module, int64_t num_devices, uint64_t seed);
std::string difference_when_partitioned(const Module& module, int64_t num_devices,
                                        const std::vector<Value>& arguments);

// "all-gather [2,4]<=[8]" per collective of the uncombined program, in order.
std::vector<std::string> collectives(const CompiledModule& compiled);

}  // namespace gspmd::testing
