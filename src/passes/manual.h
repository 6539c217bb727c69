#pragma once

#include <optional>

#include "passes/spmd_partitioner.h"

namespace gspmd {

// Values of manual regions: `{manual}` ones are as each device computes them, by the user's own
// program; those with manual digits are so along these digits, and partitioned along the others.
bool is_manual_value(const Sharding& s);  // {manual}, or a tuple of such
bool has_manual_digits(const Sharding& s);
Sharding without_manual(const Sharding& s);
Sharding with_manual(const Sharding& s, DeviceOrder order, const Digits& manual);

// `value` told as one of a region with the manual digits of `to`; what was split along them is
// gathered. UserError where a tiled and a manual value meet without a conversion.
Partitioned enter_region(SpmdPartitioner& spmd, Partitioned value, const Shape& global,
                         const Sharding& to);

// A value of a region in another layout of the same region, over another order of the devices.
// UserError where a device is in another part of the region then.
Node* move_in_region(SpmdPartitioner& spmd, const Partitioned& value, const Shape& global,
                     const Sharding& to);

// Starts and ends of regions, nodes of `{manual}` values, collectives and partition ids inside of
// regions; nullopt for every other node.
std::optional<Partitioned> partition_manual(SpmdPartitioner& spmd, Node& node);

}  // namespace gspmd
