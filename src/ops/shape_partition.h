#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Partitioned partition_reshape(PartitionContext& context, Node& node);
Partitioned partition_iota(PartitionContext& context, Node& node);
Partitioned partition_constant(PartitionContext& context, Node& node);

}  // namespace gspmd
