#pragma once

#include "gspmd/moves/reshard.h"

namespace gspmd {

// The way of a table that is looked up to its new layout: plan_reshard's, unless some of its
// digits move from one dim to another and others are gathered. Then it may be that way over the
// layout in which each device still holds a part of the size it held, cut along a dim that the new
// layout leaves whole, and the gather comes last. No dim is cut into the product of what cuts it
// before and after, which would have to be smaller than its size: the same way serves meshes of
// any size. Taken where it sends at most a quarter more.
ReshardPlan plan_table_reshard(const Shape& global, const Sharding& from, const Sharding& to,
                               int64_t num_devices = 0);

}  // namespace gspmd
