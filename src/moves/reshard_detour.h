#pragma once

#include <vector>

#include "gspmd/moves/reshard.h"

namespace gspmd {

// Layouts by which two reshards may send less than one that keeps to the digits of its two ends:
// where few devices can be counted in digits without common cuts (six as 2 by 3 and as 3 by 2).
// Only those that may send fewer bytes than `below`; the likeliest first.
std::vector<Sharding> detours(const Shape& global, const Sharding& from, const Sharding& to,
                              int64_t num_devices, int64_t below);

// Both, one after the other.
ReshardPlan joined(ReshardPlan first, const ReshardPlan& second);

}  // namespace gspmd
