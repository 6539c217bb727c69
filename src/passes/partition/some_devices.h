#pragma once

#include <functional>
#include <optional>

#include "gspmd/ir/partition_context.h"
#include "moves/some_devices.h"

// Values on some of the devices: tiled over fewer devices than the program has, or `{maximal}`.
// What the other devices have of them means nothing.

namespace gspmd {

// Whether a sharding says where parts are and no more: tiled, nothing manual or still to be
// combined.
bool is_plain(const Sharding& s);

// Whether the partitioning of a node takes operands and results on some of the devices as they are:
// what only hands values on, and what the factor rule or `partition_where_placed` serves.
bool sees_placement(const Node& node, const std::function<const Sharding&(const Node&)>& placed,
                    int64_t num_devices);

// An elementwise op whose result is on some of the devices, done there. nullopt: anything else, or
// where groups of its devices can be completed to groups of all.
std::optional<Partitioned> partition_where_placed(PartitionContext& spmd, Node& node);

}  // namespace gspmd
