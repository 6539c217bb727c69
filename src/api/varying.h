#pragma once

#include "api/trace_state.h"

namespace gspmd::detail {

// A set of the region's manual axes, by their place in its list.
using AxisSet = uint64_t;

// Along which manual axes each leaf of the results of a function given to shard_map may differ from
// device to device; of its parameters it is known. Devices that a collective brings together have
// to reach it together: UserError for one in a branch or loop that goes different ways on them.
std::vector<AxisSet> varying_results(const Computation& body, const ManualRegion& region,
                                     const std::vector<AxisSet>& parameters);

// Set on what differs along some manual axes only, though it is made of a device's number: the
// value of axis_index. Names of axes, separated by commas.
inline constexpr const char* kVariesAlong = "gspmd.varies_along";

}  // namespace gspmd::detail
