#include "ops/emission/collectives.h"

#include <algorithm>

namespace gspmd {

Attributes group_attributes(PartitionContext& spmd, DeviceOrder order, const Digits& digits) {
  Attributes attrs;
  attrs.replica_groups = spmd.groups(order, digits);
  attrs.channel_id = 1;
  attrs.use_global_device_ids = true;
  return attrs;
}

Node* gather_along(PartitionContext& spmd, Node* x, int64_t dim, DeviceOrder order,
                   const Digits& digits) {
  Attributes attrs = group_attributes(spmd, order, digits);
  attrs.dimensions = {dim};
  Shape shape = x->shape;
  shape.dims[static_cast<size_t>(dim)] *= tile_count(digits);
  return spmd.emit(Opcode::all_gather, shape, {x}, std::move(attrs));
}

Node* broadcast_along(PartitionContext& spmd, Node* x, DeviceOrder order, const Digits& digits,
                      int64_t tile) {
  Attributes attrs;
  attrs.channel_id = 1;
  attrs.replica_groups = group_attributes(spmd, order, digits).replica_groups;
  if (tile > 0) {  // the first of a group is the one that sends
    ReplicaGroups named;
    named.lists = materialize(*attrs.replica_groups, spmd.num_devices());
    for (std::vector<int64_t>& group : named.lists)
      std::rotate(group.begin(), group.begin() + tile, group.begin() + tile + 1);
    attrs.replica_groups = std::move(named);
  }
  return spmd.emit(Opcode::collective_broadcast, x->shape, {x}, std::move(attrs));
}

Node* permute(PartitionContext& spmd, Node* x, Permutation permutation) {
  Attributes attrs;
  attrs.channel_id = 1;
  attrs.permutation = std::move(permutation);
  return spmd.emit(Opcode::collective_permute, x->shape, {x}, std::move(attrs));
}

}  // namespace gspmd
