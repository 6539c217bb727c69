// Uneven tails: the last shards of a dim that its tiles do not divide end behind the array. What
// stands there must not be summed, chosen or written; who does asks for it: partition_factors.cpp
// (dims_to_mask), and ops that partition themselves (PartitionContext::mask_tail).

#include "gspmd/ops/builders.h"
#include "ops/emission/index.h"
#include "passes/partition/spmd_partitioner.h"

namespace gspmd {

Node* SpmdPartitioner::mask_tail(Node* x, const Shape& global, const Sharding& s,
                                 const std::vector<int64_t>& dims, Node* value) {
  for (const int64_t d : dims) {
    const int64_t full = global.dims[static_cast<size_t>(d)];
    if (full % s.tiles(d) == 0) continue;
    const IndexNode position(hlo::iota(local(), Shape(DType::s32, x->dims()), d));
    const IndexNode start(hlo::broadcast(offset(s, global, d), x->dims(), {}));
    const IndexNode limit(hlo::splat(local(), Shape(DType::s32, x->dims()), double(full)));
    Node* valid = compare(position + start, limit, Direction::lt);
    x = hlo::select(valid, x, hlo::broadcast(value, x->dims(), {}));
  }
  return x;
}

}  // namespace gspmd
