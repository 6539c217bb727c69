#pragma once

#include "gspmd/ir/partition_context.h"
#include "gspmd/moves/reshard.h"

namespace gspmd {

// A collective_broadcast without pieces to a layout that is finer: each device of a set sends to
// those at its place in the copies of the set what they are to have of its shard `x`, one permute
// for each copy (moves/reshard_subset.h).
Node* emit_spread(PartitionContext& spmd, Node* x, const Shape& global, const ReshardStep& step);

}  // namespace gspmd
