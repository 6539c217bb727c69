#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Whether a value is an element of a loop's last state that the loop fills row by row: dim 0 is
// that of its iterations; or a sum of such over the iterations of a loop around it.
bool is_stacked(const Node& value);

// Lays a stacked value out by `sharding`, dim 0 of which is not split, in the loops that make it:
// what an iteration adds is summed over devices in shards.
void shard_stacked(Node& value, const Sharding& sharding);

}  // namespace gspmd
