#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Partitioned partition_tuple(PartitionContext& context, Node& node);
Partitioned partition_get_tuple_element(PartitionContext& context, Node& node);
Partitioned partition_opt_barrier(PartitionContext& context, Node& node);
Partitioned partition_while(PartitionContext& context, Node& node);
Partitioned partition_custom_call(PartitionContext& context, Node& node);
Partitioned partition_partition_id(PartitionContext& context, Node& node);  // always an error

}  // namespace gspmd
