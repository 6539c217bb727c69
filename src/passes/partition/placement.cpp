#include "passes/partition/placement.h"

#include <algorithm>
#include <numeric>

#include "ops/control/control.h"

namespace gspmd {
namespace {

// Over fewer devices, of which groups can be made that name all devices.
bool completes_to_groups(const Sharding& s, int64_t num_devices) {
  return s.is_tiled() && s.order() && num_devices % s.order()->count == 0;
}

bool is_elementwise(const Node& node) {
  return node.op().has(kElementwise) && !node.shape.is_tuple && !node.op().has(kSideEffect) &&
         !node.op().has(kCollective) && !node.op().partition && node.called.empty();
}

}  // namespace

bool sees_placement(const Node& node, const std::function<const Sharding&(const Node&)>& placed,
                    int64_t num_devices) {
  if (node.op().has(kPlacedAnywhere) || is_annotation(node)) return true;
  const bool by_factors =
      node.op().factors && !node.op().has(kCollective) && !node.is(Opcode::custom_call);
  if (node.shape.is_tuple || node.op().has(kPlacedOnAll) || !by_factors) return false;
  if (is_elementwise(node) && is_partial(placed(node), num_devices)) return true;
  const auto fits = [&](const Node& n) {
    const Sharding& s = placed(n);
    return !is_partial(s, num_devices) || completes_to_groups(s, num_devices);
  };
  return fits(node) && std::all_of(node.operands().begin(), node.operands().end(),
                                   [&](const Node* operand) { return fits(*operand); });
}

std::optional<Partitioned> partition_where_placed(PartitionContext& spmd, Node& node) {
  if (!is_elementwise(node)) return std::nullopt;
  const Sharding s = spmd.sharding(node);
  if (!is_partial(s, spmd.num_devices()) || completes_to_groups(s, spmd.num_devices()))
    return std::nullopt;
  std::vector<Node*> operands;
  for (Node* operand : node.operands()) {
    const bool same = operand->dims() == node.dims();
    operands.push_back(spmd.reshard(operand, same ? s : Sharding::replicated()));
  }
  return Partitioned{
      spmd.emit(node.opcode(), local_shape(node.shape, s), std::move(operands), node.attrs), s};
}

}  // namespace gspmd
