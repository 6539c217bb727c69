#pragma once

#include "gspmd/ir/partition_context.h"
#include "moves/exchange_choice.h"
#include "ops/emission/index.h"

namespace gspmd {

// A dim of a local value and the digits over which it is held, or, where every device has all of
// it, over which the result is to be.
struct ExchangedDim {
  int64_t dim = 0;
  DeviceOrder order = nullptr;
  Digits digits;
  HeldDim held;
  bool whole = false;
};

// What each device needs of one dim: the result has `access.length` elements there, element j being
// the global element first(tile) + j. Elements outside of the dim are `fill` (a scalar), or
// anything where that is null. By the way that sends the fewest bytes: halos of neighbours,
// transfers, or gathering the dim. `access` is addressable (halo.h).
Node* exchange(PartitionContext& spmd, Node* x, const ExchangedDim& from, const Access& access,
               Node* fill);

// The dim turned round by `by` (0 <= by < size), its shards being full: position p of the result is
// position (p + by) modulo size. At most two permutes, of one shard together.
Node* rotate(PartitionContext& spmd, Node* x, const ExchangedDim& from, int64_t by);

// The same by a number that is known when the program runs, s32[] and not negative: shards go round
// by powers of two, in as many permutes of a shard as the number of tiles has digits, and one more.
Node* rotate(PartitionContext& spmd, Node* x, const ExchangedDim& from, IndexNode by);
int64_t bytes_to_turn(const Shape& shard, const ExchangedDim& from);  // what that sends

Node* exchange_joined(PartitionContext& spmd, const std::vector<Node*>& shards, const Join& join,
                      const JoinPlan& plan);

// What each device is to have of several parts of the dim of x, split as x is, in a row.
Node* exchange_split(PartitionContext& spmd, Node* x, const ExchangedDim& from,
                     const std::vector<Interval>& parts, const JoinPlan& plan);

Node* exchange_window(PartitionContext& spmd, Node* x, const ExchangedDim& from,
                      const WindowAccess& window, Node* fill);

}  // namespace gspmd
