#pragma once

#include "gspmd/ir/partition_context.h"
#include "moves/pieces.h"

namespace gspmd {

// The rounds of a transfer: `x` is the shard of `transfer.have`; returns that of `transfer.want`,
// of shape `after`. Tables of devices: O(devices).
Node* emit_pieces(PartitionContext& spmd, Node* x, const Shape& after,
                  const PieceTransfer& transfer);

// Its groups: whole shards from the first device of each to the others; who is in no group keeps
// what it has.
Node* emit_broadcast(PartitionContext& spmd, Node* x, const PieceTransfer& transfer);

}  // namespace gspmd
