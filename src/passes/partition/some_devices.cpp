#include "passes/partition/some_devices.h"

#include <algorithm>
#include <numeric>

#include "gspmd/moves/reshard.h"
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

// What works on whatever values it gets, without an end that depends on them.
bool may_run_alone(const Node& node) {
  const OpInfo& op = node.op();
  return op.factors && !op.has(kPlacedAnywhere) && !op.has(kSideEffect) && !op.has(kCollective) &&
         !op.has(kConstantLike) && !node.is(Opcode::custom_call) &&
         // Of scalars alone: what a broadcast repeats is taken to be on every device.
         std::any_of(node.operands().begin(), node.operands().end(),
                     [](const Node* operand) { return operand->rank() > 0; }) &&
         std::none_of(node.operands().begin(), node.operands().end(),
                      [](const Node* operand) { return operand->shape.is_tuple; });
}

// The leaves of a value that are all on one device; nullopt: they are not.
std::optional<int64_t> only_device(const Sharding& s) {
  const std::span<const Sharding> leaves =
      s.is_tuple() ? std::span(s.elements()) : std::span(&s, 1);
  if (leaves.empty()) return std::nullopt;
  for (const Sharding& leaf : leaves)
    if (leaf.kind() != ShardingKind::maximal || leaf.device() != leaves[0].device())
      return std::nullopt;
  return leaves[0].device();
}

using Placed = std::function<const Sharding&(const Node&)>;

// The device on which a node is done whole: that of its operands, where its result is wanted there
// or sends less to where it is wanted than they would.
std::optional<int64_t> device_of(const Node& node, const Placed& placed, int64_t num_devices) {
  if (num_devices == 1 || !may_run_alone(node)) return std::nullopt;
  std::optional<int64_t> device;
  int64_t operands = 0, results = 0;
  for (const Node* operand : node.operands()) {
    const Sharding& s = placed(*operand);
    if (s.is_replicated()) continue;
    const auto only = only_device(s);
    if (!only || (device && *device != *only)) return std::nullopt;
    device = only;
    operands = saturating_add(
        operands, plan_reshard(operand->shape, s, Sharding::replicated(), num_devices).cost.bytes);
  }
  if (!device) return std::nullopt;
  const Sharding& wanted = placed(node);
  if (only_device(wanted) == device) return device;
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Sharding& to = wanted.is_tuple() ? wanted.elements().at(i) : wanted;
    if (!to.is_tiled() || !to.manual_digits().empty()) return std::nullopt;
    results = saturating_add(
        results, plan_reshard(shapes[i], Sharding::maximal(*device), to, num_devices).cost.bytes);
  }
  return results < operands ? device : std::nullopt;
}

}  // namespace

bool is_plain(const Sharding& s) {
  return s.is_tiled() && s.manual_digits().empty() && s.unreduced().empty();
}

bool sees_placement(const Node& node, const std::function<const Sharding&(const Node&)>& placed,
                    int64_t num_devices) {
  if (node.op().has(kPlacedAnywhere) || is_annotation(node)) return true;
  if (device_of(node, placed, num_devices)) return true;
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
  const Placed placed = [&](const Node& n) -> const Sharding& { return spmd.sharding(n); };
  if (const auto device = device_of(node, placed, spmd.num_devices())) {
    const Sharding there = Sharding::maximal(*device);
    std::vector<Node*> operands;
    for (Node* operand : node.operands()) operands.push_back(spmd.reshard(operand, there));
    std::vector<Computation*> called;
    for (const Computation* c : node.called) called.push_back(spmd.local_computation(*c));
    Node* const local =
        spmd.emit(node.opcode(), node.shape, std::move(operands), node.attrs, std::move(called));
    if (!node.shape.is_tuple) return Partitioned{local, there};
    const auto leaves = static_cast<size_t>(leaf_count(node.shape));
    return Partitioned{local, Sharding::tuple(std::vector<Sharding>(leaves, there))};
  }
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
