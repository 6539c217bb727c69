// Reversals and concatenations whose parts go as a whole.

#include "gspmd/base/error.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/common/completion.h"
#include "ops/shape/shape.h"

namespace gspmd {

std::optional<Partitioned> partition_reverse(PartitionContext& spmd, Node& node) {
  // Up to this many devices an exchange lists who sends to whom.
  constexpr int64_t kManyDevices = 4096;
  const Sharding have = spmd.sharding(*node.operand(0)), want = spmd.sharding(node);
  if (!have.is_tiled() || !want.is_tiled() || !have.order() || !want.order()) return std::nullopt;
  bool split = false;
  for (const int64_t d : node.attrs.dimensions) {
    split = split || have.tiles(d) > 1;
    if (node.dim(d) == 0 || node.dim(d) % have.tiles(d) != 0) return std::nullopt;
  }
  for (int64_t d = 0; d < node.rank(); ++d)
    if (have.dim(d) != want.dim(d)) return std::nullopt;
  if (!split || have.manual_digits() != want.manual_digits()) return std::nullopt;
  const Sharding turned = reversed_tiles(have, node.attrs.dimensions);
  if (turned.num_tiles() != have.num_tiles()) return std::nullopt;  // too many devices to list
  if (have.order()->count <= kManyDevices && !equivalent(turned, want)) return std::nullopt;
  Node* x = spmd.reshard(node.operand(0), have);
  return Partitioned{spmd.emit(Opcode::reverse, x->shape, {x}, node.attrs), turned};
}

// Equal operands of a concatenation along a split dim, as many for each device: one all-to-all of
// the stack that they are, of the bytes that everybody lacks.
std::optional<Partitioned> partition_concatenate(PartitionContext& spmd, Node& node) {
  const int64_t d = node.attrs.dimensions.at(0), count = std::ssize(node.operands());
  const Sharding want = spmd.sharding(node);
  if (!want.is_tiled() || want.tiles(d) < 3 || count % want.tiles(d) != 0) return std::nullopt;
  const Dims& each = node.operand(0)->dims();
  if (each[static_cast<size_t>(d)] == 0 || each[static_cast<size_t>(d)] % want.tiles(d) != 0)
    return std::nullopt;
  for (int64_t i = 0; i < count; ++i)
    if (node.operand(i)->dims() != each || node.operand(i)->is(Opcode::slice) ||
        spmd.keeps_unreduced(node, i) || !equivalent(spmd.sharding(*node.operand(i)), want))
      return std::nullopt;
  const auto stacked = [&](Dims dims, int64_t parts) {
    dims.insert(dims.begin() + d, parts);
    return dims;
  };
  // Split along the stack, or along the operands.
  const auto layout = [&](bool stack) {
    std::vector<Digits> dims;
    for (int64_t e = 0; e < node.rank(); ++e) {
      if (e == d) dims.push_back(stack ? want.dim(d) : Digits{});
      dims.push_back(e == d && stack ? Digits{} : want.dim(e));
    }
    return Sharding::tiled(want.order(), std::move(dims), want.manual_digits());
  };
  std::vector<Node*> parts;
  for (Node* operand : node.operands()) {
    Node* local = spmd.reshard(operand, want);
    parts.push_back(hlo::reshape(local, stacked(local->dims(), 1)));
  }
  const Shape whole(node.shape.dtype, stacked(each, count));
  Node* local = spmd.reshard({hlo::concatenate(parts, d), layout(false)}, whole, layout(true));
  return Partitioned{hlo::reshape(local, local_shape(node.shape, want).dims), want};
}

}  // namespace gspmd
