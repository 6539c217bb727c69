#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// The layout, or layouts, of element i of a tuple whose leaves lie as `tuple` says.
Sharding element_sharding(const Sharding& tuple, const Shape& shape, int64_t element);
// A tuple in the layouts `to`, leaf by leaf; what is in its layout stays as it is.
Node* tuple_in_layout(PartitionContext& context, const Partitioned& value, const Shape& global,
                      const Sharding& to);
std::optional<Partitioned> partition_tuple(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_get_tuple_element(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_opt_barrier(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_while(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_conditional(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_custom_call(PartitionContext& context, Node& node);

}  // namespace gspmd
