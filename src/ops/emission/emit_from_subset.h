#pragma once

#include "gspmd/ir/partition_context.h"
#include "gspmd/moves/reshard.h"

namespace gspmd {

// A collective_broadcast without pieces (moves/reshard_subset.h): each device of a set sends its
// shard `x` to those at its place in the copies of the set; or, to a layout that is finer, what
// each of them is to have of it, one permute for each copy.
Node* emit_from_subset(PartitionContext& spmd, Node* x, const Shape& global,
                       const ReshardStep& step);

}  // namespace gspmd
