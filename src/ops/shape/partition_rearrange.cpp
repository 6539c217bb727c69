// Reversals and concatenations whose parts go as a whole.

#include "gspmd/base/error.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/ops/builders.h"
#include "ops/common/completion.h"
#include "ops/emission/exchange.h"
#include "ops/shape/shape.h"

namespace gspmd {

namespace {

// Shards that are turned round where they lie are tiles of the result, each as far from the other
// end. What was the tail of the last one stands in front of the first: such a dim is held with its
// tail before it. nullopt: positions do not fit.
std::optional<ExchangedDim> tails_in_front(const Sharding& turned, int64_t d, int64_t size) {
  const int64_t tiles = turned.tiles(d), shard = ceil_div(size, tiles);
  const ExchangedDim from{d, turned.order(), turned.dim(d), {shard * tiles, tiles, shard}};
  const int64_t tail = shard * tiles - size;
  if (!is_addressable(from.held, Access{shard, tail, 1, shard})) return std::nullopt;
  return from;
}

int64_t bytes_between(PartitionContext& spmd, const Shape& shape, const Sharding& from,
                      const Sharding& to) {
  return plan_reshard(shape, from, to, spmd.num_devices()).cost.bytes;
}

// What is sent where the operand is brought into the order of the result and turned there.
std::optional<int64_t> bytes_in_order(PartitionContext& spmd, const Node& node,
                                      const Sharding& have, const Sharding& want) {
  int64_t bytes = bytes_between(spmd, node.shape, have, want);
  const Shape shard = local_shape(node.shape, want);
  for (const int64_t d : node.attrs.dimensions) {
    const int64_t tiles = want.tiles(d), size = node.dim(d), part = ceil_div(size, tiles);
    if (tiles == 1) continue;
    const HeldDim held{size, tiles, part};
    const Access access{-part, size - part, 1, part};
    if (!is_addressable(held, access)) return std::nullopt;
    bytes = saturating_add(
        bytes, saturating_multiply(shard.bytes() / part, choose_exchange(held, access).received));
  }
  return bytes;
}

}  // namespace

// Each device turns its shard round; or shards are brought where they are wanted and exchanged
// there, whichever sends less.
std::optional<Partitioned> partition_reverse(PartitionContext& spmd, Node& node) {
  const Sharding have = spmd.sharding(*node.operand(0)), want = spmd.sharding(node);
  if (!have.is_tiled() || !want.is_tiled() || !have.order() || !want.order() ||
      node.shape.elements_count() == 0 || have.manual_digits() != want.manual_digits())
    return std::nullopt;
  bool split = false;
  for (const int64_t d : node.attrs.dimensions) split = split || have.tiles(d) > 1;
  for (int64_t d = 0; d < node.rank(); ++d)
    if (have.dim(d) != want.dim(d)) return std::nullopt;
  if (!split) return std::nullopt;
  const Sharding turned = reversed_tiles(have, node.attrs.dimensions);
  if (turned.num_tiles() != have.num_tiles()) return std::nullopt;  // too many devices to list
  const bool there = equivalent(turned, want);
  const Shape shard = local_shape(node.shape, have);
  // In regions shards stay on their manual devices: those that are in place, and without a tail.
  const bool has_tail = saturating_multiply(shard.bytes(), have.num_tiles()) != node.shape.bytes();
  if (!have.manual_digits().empty() && (!there || has_tail)) return std::nullopt;
  int64_t bytes = there ? 0 : bytes_between(spmd, node.shape, turned, want);
  std::vector<ExchangedDim> tails;
  for (const int64_t d : node.attrs.dimensions) {
    if (node.dim(d) % have.tiles(d) == 0) continue;
    const auto from = tails_in_front(turned, d, node.dim(d));
    if (!from) return std::nullopt;
    const int64_t tail = from->held.size - node.dim(d);
    const ExchangeChoice choice =
        choose_exchange(from->held, {from->held.shard, tail, 1, from->held.shard});
    bytes = saturating_add(bytes,
                           saturating_multiply(shard.bytes() / from->held.shard, choice.received));
    tails.push_back(*from);
  }
  // Beyond this many devices an exchange does not list who sends to whom.
  constexpr int64_t kManyDevices = 4096;
  if (bytes > 0 && have.order()->count <= kManyDevices)
    if (const auto in_order = bytes_in_order(spmd, node, have, want);
        in_order && *in_order <= bytes)
      return std::nullopt;
  Node* x = spmd.reshard(node.operand(0), have);
  x = spmd.emit(Opcode::reverse, x->shape, {x}, node.attrs);
  for (const ExchangedDim& from : tails)
    x = exchange(spmd, x, from,
                 {from.held.shard, from.held.size - node.dim(from.dim), 1, from.held.shard},
                 nullptr);
  return Partitioned{x, turned};
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
