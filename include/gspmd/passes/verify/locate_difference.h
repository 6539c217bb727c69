#pragma once

// Where a partitioned program first computes something else.

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "gspmd/base/export.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/partition/partition.h"

namespace gspmd {

// The flat index of the first element of `found` that counts as different from `expected`, of the
// same shape; nullopt: equal.
using FirstUnequal =
    std::function<std::optional<int64_t>(const Array& expected, const Array& found)>;

// The first node whose value the per-device program computes otherwise.
struct ValueDifference {
  const Node* node = nullptr;  // of the completed module
  int64_t leaf = 0;            // of a tuple
  int64_t run = 0;             // how often the node had run before: the iteration, inside of a loop
  int64_t device = 0;          // whose part it is
  Dims index;                  // in the whole value
  Array expected, found;       // the element, of shape []
};

// What is compared.
struct LocateOptions {
  int64_t num_devices = 1;  // of the per-device program
  // Of values kept from the whole run; nodes that run beyond that are not compared.
  int64_t most_bytes = int64_t(1) << 30;
};

// Runs the completed module whole and the module that `partition` made of it on the reference
// interpreter, node by node, and compares every value that both have: each device's part of it,
// partial sums summed up. The earliest in the order of the whole run, those inside of loops and
// branches included; nullopt where all are equal. Manual regions are not compared.
GSPMD_API std::optional<ValueDifference> locate_difference(const Module& completed,
                                                           const PartitionResult& partitioned,
                                                           std::span<const Value> arguments,
                                                           const FirstUnequal& first_unequal,
                                                           const LocateOptions& options);

// Each device's arguments of the per-device program of a completed module, zeros behind the ends of
// uneven dims: [device][parameter].
GSPMD_API std::vector<std::vector<Value>> device_arguments(const Module& completed,
                                                           int64_t num_devices,
                                                           std::span<const Value> arguments);
// The leaves of the result, from each device's.
GSPMD_API std::vector<Array> whole_results(const Module& completed, std::span<const Value> results);

}  // namespace gspmd
