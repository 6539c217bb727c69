#pragma once

#include <optional>

#include "gspmd/ir/partition_context.h"
#include "mesh/manual_digits.h"

namespace gspmd {

// Values of manual regions: `{manual}` ones are as each device computes them, by the user's own
// program; those with manual digits are so along these digits, and partitioned along the others.

// `value` told as one of a region with the manual digits of `to`; what was split along them is
// gathered. UserError where a tiled and a manual value meet without a conversion.
Partitioned enter_region(PartitionContext& spmd, Partitioned value, const Shape& global,
                         const Sharding& to);

// A value of a region in another layout of the same region, over another order of the devices.
// UserError where a device is in another part of the region then.
Node* move_in_region(PartitionContext& spmd, const Partitioned& value, const Shape& global,
                     const Sharding& to);

// Starts and ends of regions, nodes of `{manual}` values, collectives and partition ids inside of
// regions; nullopt for every other node.
std::optional<Partitioned> partition_manual(PartitionContext& spmd, Node& node);

}  // namespace gspmd
