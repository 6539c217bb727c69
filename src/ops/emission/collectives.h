#pragma once

#include "gspmd/ir/partition_context.h"

namespace gspmd {

// What says over which devices a collective goes: the groups that `digits` span.
Attributes group_attributes(PartitionContext& spmd, DeviceOrder order, const Digits& digits);

// All pieces of `x` along `dim` from the devices that `digits` span, in tile order.
Node* gather_along(PartitionContext& spmd, Node* x, int64_t dim, DeviceOrder order,
                   const Digits& digits);

// What the device in tile `tile` of those that `digits` span has of `x`, on all of them.
Node* broadcast_along(PartitionContext& spmd, Node* x, DeviceOrder order, const Digits& digits,
                      int64_t tile);

// What each device is sent of `x`; zeros where it is sent nothing.
Node* permute(PartitionContext& spmd, Node* x, Permutation permutation);

}  // namespace gspmd
