#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gspmd/ir/partition_context.h"
#include "ops/gather_scatter/nest.h"

namespace gspmd {

// What gather and scatter share when their nest runs on one device's parts.

// Whether starts outside of the operand are moved inside (gather) or drop their slice (scatter).
enum class OutOfRange : uint8_t { clamp, drop };

// Index vectors counted from the beginning of this device's part of the operand. Where slices
// of more than one element may stick out of that part, from `room` elements before it: the operand
// is padded by as many. Of IndexMethod::part loops, from where this device's part of a slice
// begins.
struct LocalIndices {
  Node* indices = nullptr;
  Dims map;  // component -> operand dim; dims that are split, but not looked up, have joined
  // Per operand dim of IndexMethod::cut loops that are split: where each slice starts in the part,
  // over the batch dims of the indices; may lie outside.
  std::vector<std::pair<int64_t, Node*>> starts;
};
// `indices` is the local value in the spread's layout.
LocalIndices local_indices(PartitionContext& spmd, Node* indices, const IndexNest& nest,
                           const IndexFactorSharding& spread, const Shape& operand,
                           OutOfRange mode);

// `room` of each operand dim; the local operand with it on both sides, and without it again.
Dims rooms(const IndexNest& nest, const IndexFactorSharding& spread);
Node* with_room(Node* operand, const Dims& rooms);
Node* without_room(Node* operand, const Dims& rooms);

// The layout of a value that readers see, or as it is held where only this node reads it.
Sharding layout_before(PartitionContext& spmd, const Node& node, int64_t operand);
// As many leaves as the node has.
std::vector<Sharding> wanted_layouts(PartitionContext& spmd, const Node& node);
void set_region(IndexProblem& problem, const Sharding& wanted);

// Puts together what one device has and all others do not.
Combiner combiner_of_one(DType type);
// The number that changes nothing, as a scalar of any type: also -0.0 in both parts of complex
// sums.
Node* neutral_scalar(PartitionContext& spmd, Combiner combiner, DType type);
Sharding with_partial(const Sharding& layout, const IndexFactorSharding& spread,
                      const Digits& digits, Combiner combiner);

}  // namespace gspmd
