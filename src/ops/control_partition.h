#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// The layout, or layouts, of element i of a tuple whose leaves lie as `tuple` says.
Sharding element_sharding(const Sharding& tuple, const Shape& shape, int64_t element);
// A tuple in the layouts `to`, leaf by leaf; what is in its layout stays as it is.
Node* tuple_in_layout(PartitionContext& context, const Partitioned& value, const Shape& global,
                      const Sharding& to);
Partitioned partition_tuple(PartitionContext& context, Node& node);
Partitioned partition_get_tuple_element(PartitionContext& context, Node& node);
Partitioned partition_opt_barrier(PartitionContext& context, Node& node);
Partitioned partition_while(PartitionContext& context, Node& node);
Partitioned partition_conditional(PartitionContext& context, Node& node);
Partitioned partition_custom_call(PartitionContext& context, Node& node);
Partitioned partition_all_reduce(PartitionContext& context, Node& node);
Partitioned partition_partition_id(PartitionContext& context, Node& node);  // always an error

}  // namespace gspmd
