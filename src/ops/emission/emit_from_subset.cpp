#include "ops/emission/emit_from_subset.h"

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "moves/reshard_subset.h"
#include "ops/emission/collectives.h"
#include "ops/emission/index.h"

namespace gspmd {
namespace {

class FromSubset {
 public:
  FromSubset(PartitionContext& spmd, const Shape& global, const ReshardStep& step)
      : spmd_(spmd), global_(global), step_(step), after_(local_shape(global, step.after)) {}

  Node* run(Node* x) {
    const bool whole = step_.before.kind() == ShardingKind::maximal;
    const DeviceOrder set = whole ? list_order({step_.before.device()}) : step_.before.order();
    const auto subset = subset_of_all(set, spmd_.num_devices());
    if (!subset) internal_error("reshard: {} is spread from no subset", to_string(step_.before));
    if (x->dims() == after_.dims) return broadcast(x, *subset);
    // Every shard is cut in as many parts; the last ones reach into padding.
    for (int64_t d = 0; d < global_.rank(); ++d) {
      const int64_t parts = step_.after.tiles(d) / step_.before.tiles(d);
      x = pad(x, d, 0,
              std::max<int64_t>(0, after_.dims[static_cast<size_t>(d)] * parts - x->dim(d)));
    }
    const IndexNode device = device_number(spmd_.local());
    const IndexNode copy(spmd_.digits_index(subset->from_set, {subset->copies}));
    Node* result = part_of(x, device);
    for (int64_t k = 1; k < subset->copies.size; ++k) {
      Node* const sent = part_of(x, device + subset->distances[static_cast<size_t>(k)]);
      Node* const received =
          permute(spmd_, sent, tiles_along(subset->from_set, {subset->copies}, Pairs{{0, k}}));
      Node* const mine = compare(copy, IndexNode(spmd_.local(), k), Direction::eq);
      result = hlo::select(hlo::broadcast(mine, result->dims(), {}), received, result);
    }
    return result;
  }

 private:
  Node* broadcast(Node* x, const DeviceSubset& subset) {
    Attributes attrs;
    attrs.channel_id = 1;
    attrs.replica_groups = groups_over(subset.from_set, {subset.copies});
    return spmd_.emit(Opcode::collective_broadcast, x->shape, {x}, std::move(attrs));
  }

  // What that device is to have, of the shard of this one, in which it lies.
  Node* part_of(Node* x, IndexNode device) {
    std::vector<Node*> starts;
    for (int64_t d = 0; d < global_.rank(); ++d) {
      const int64_t parts = step_.after.tiles(d) / step_.before.tiles(d);
      if (parts == 1) {
        starts.push_back(IndexNode(spmd_.local(), 0));
        continue;
      }
      const IndexNode tile = digits_index(device, step_.after.dim(d), spmd_.num_devices());
      starts.push_back(tile % parts * after_.dims[static_cast<size_t>(d)]);
    }
    return hlo::dynamic_slice(x, std::move(starts), after_.dims);
  }

  PartitionContext& spmd_;
  const Shape& global_;
  const ReshardStep& step_;
  Shape after_;
};

}  // namespace

Node* emit_from_subset(PartitionContext& spmd, Node* x, const Shape& global,
                       const ReshardStep& step) {
  return FromSubset(spmd, global, step).run(x);
}

}  // namespace gspmd
