#pragma once

#include "gspmd/ir/partition_context.h"
#include "gspmd/moves/reshard.h"

namespace gspmd {

// Emits the steps of a plan on a local value; returns the local value in the last step's layout.
Node* emit_reshard(PartitionContext& spmd, Node* local, const Shape& global,
                   const ReshardPlan& plan);

}  // namespace gspmd
