#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Partitioned partition_gather(PartitionContext& context, Node& node);
Partitioned partition_scatter(PartitionContext& context, Node& node);

}  // namespace gspmd
