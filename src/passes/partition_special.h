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
// A slice of a few elements of a split dim: each holder gives its part of it.
std::optional<Partitioned> partition_short_slice(SpmdPartitioner& spmd, Node& node);
// A reshape whose shards are runs of elements in row-major order, even where they do not nest.
std::optional<Partitioned> partition_uneven_reshape(SpmdPartitioner& spmd, Node& node);
// Several values reduced at once over split dims, or one by a computation without a name: on each
// device, then the results of all.
std::optional<Partitioned> partition_variadic_reduce(SpmdPartitioner& spmd, Node& node);
// The k first of each device, then of those of all devices.
std::optional<Partitioned> partition_topk(SpmdPartitioner& spmd, Node& node);
// Each device chooses in all windows that touch its part: halos of elements and sources.
std::optional<Partitioned> partition_select_and_scatter(SpmdPartitioner& spmd, Node& node);

// Cumulative sums and the like: on each device, and what the parts before come to.
std::optional<Partitioned> partition_cumulative(SpmdPartitioner& spmd, Node& node);
// A scan along a split dim whose steps are associative: what the parts come to, then the parts.
std::optional<Partitioned> partition_scan(SpmdPartitioner& spmd, Node& node);

// A sort of which only the first elements are read: those of each device, then those of all.
std::optional<Partitioned> partition_sort(SpmdPartitioner& spmd, Node& node);
// The first elements of such a sort.
std::optional<Partitioned> partition_slice_of_sort(SpmdPartitioner& spmd, Node& node);
// Equal operands along a split dim, as many for each device.
std::optional<Partitioned> partition_concatenate(SpmdPartitioner& spmd, Node& node);
// A reversal that ends where its parts are, or far away.
std::optional<Partitioned> partition_reverse(SpmdPartitioner& spmd, Node& node);
// A number that every device knows.
std::optional<Partitioned> partition_get_dimension_size(SpmdPartitioner& spmd, Node& node);
// A complex transform of a dim that stays split, in three exchanges.
std::optional<Partitioned> partition_fft(SpmdPartitioner& spmd, Node& node);
// Random numbers of the device's part, from their positions in the whole: the same in any layout.
std::optional<Partitioned> partition_rng_bit_generator(SpmdPartitioner& spmd, Node& node);
std::optional<Partitioned> partition_rng(SpmdPartitioner& spmd, Node& node);

// The computation of a scan on the parts that a spread of its rule (pass factors only) leaves.
Computation* scan_body(SpmdPartitioner& spmd, const Node& scan, const FactorRule& rule,
                       const std::vector<Digits>& spread);

// One of the above, where the node is of its kind.
std::optional<Partitioned> partition_special(SpmdPartitioner& spmd, Node& node);

// All pieces of `x` along `dim` from the devices that `digits` span, in tile order.
Node* gather_along(SpmdPartitioner& spmd, Node* x, int64_t dim, DeviceOrder order,
                   const Digits& digits);
}  // namespace gspmd
