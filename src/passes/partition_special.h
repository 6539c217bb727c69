#pragma once

#include <optional>

#include "passes/spmd_partitioner.h"

namespace gspmd {

// Ops that can leave split what their factor rules want whole. nullopt: the rule serves better.

// Each holder gives its part of the slice: a sum over devices of the slice, not a gather of the
// dim.
std::optional<Partitioned> partition_dynamic_slice(SpmdPartitioner& spmd, Node& node);
// Each device takes what of the update falls into its shard: no communication but the update's.
std::optional<Partitioned> partition_dynamic_update_slice(SpmdPartitioner& spmd, Node& node);
// Looks up and writes at indices, split in the ways of passes/index_loops.h; never nullopt.
std::optional<Partitioned> partition_gather(SpmdPartitioner& spmd, Node& node);
std::optional<Partitioned> partition_scatter(SpmdPartitioner& spmd, Node& node);
// A reshape whose shards are runs of elements in row-major order, even where they do not nest.
std::optional<Partitioned> partition_uneven_reshape(SpmdPartitioner& spmd, Node& node);
// Several values reduced at once over split dims: on each device, then the results of all.
std::optional<Partitioned> partition_variadic_reduce(SpmdPartitioner& spmd, Node& node);
// The k first of each device, then of those of all devices.
std::optional<Partitioned> partition_topk(SpmdPartitioner& spmd, Node& node);
// Each device chooses in all windows that touch its part: halos of elements and sources.
std::optional<Partitioned> partition_select_and_scatter(SpmdPartitioner& spmd, Node& node);

// One of the above, where the node is of its kind.
std::optional<Partitioned> partition_special(SpmdPartitioner& spmd, Node& node);

}  // namespace gspmd
