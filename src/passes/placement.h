#pragma once

#include <functional>
#include <optional>

#include "passes/spmd_partitioner.h"

// Values on some of the devices: tiled over fewer devices than the program has, or `{maximal}`.
// What the other devices have of them means nothing.

namespace gspmd {

// Of a tuple: whether a leaf is.
bool is_partial(const Sharding& s, int64_t num_devices);

// The layout on all devices nearest to it: the tiles again on the other devices where their number
// divides; else at least as many tiles per dim as the number of devices has left; whole for
// `{maximal}`.
Sharding on_all_devices(const Sharding& s, int64_t num_devices);

// Whether the partitioning of a node takes operands and results on some of the devices as they are:
// what only hands values on, and what the factor rule or `partition_where_placed` serves.
bool sees_placement(const Node& node, const std::function<const Sharding&(const Node&)>& placed,
                    int64_t num_devices);

// An elementwise op whose result is on some of the devices, done there. nullopt: anything else, or
// where groups of its devices can be completed to groups of all.
std::optional<Partitioned> partition_where_placed(SpmdPartitioner& spmd, Node& node);

}  // namespace gspmd
