#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gspmd/ops/evaluate.h"

namespace gspmd {

// Sees every node of a per-device module after the devices that reach it have run it: their ids,
// ascending, and their values. Nodes that nothing reads do not run.
using DeviceObserver = std::function<void(const Node& node, std::span<const int64_t> devices,
                                          std::span<const Value> values)>;

// As evaluate_devices, watched.
std::vector<Value> evaluate_devices(const Module& module, int64_t num_devices,
                                    const std::vector<std::vector<Value>>& arguments,
                                    const DeviceObserver& observer);

}  // namespace gspmd
