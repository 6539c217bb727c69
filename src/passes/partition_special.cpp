#include "passes/partition_special.h"

#include <limits>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/completion.h"

namespace gspmd {

std::optional<Partitioned> partition_reverse(SpmdPartitioner& spmd, Node& node) {
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
std::optional<Partitioned> partition_concatenate(SpmdPartitioner& spmd, Node& node) {
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

std::optional<Partitioned> partition_get_dimension_size(SpmdPartitioner& spmd, Node& node) {
  const int64_t size = node.operand(0)->dim(node.attrs.dimensions.at(0));
  if (size > std::numeric_limits<int32_t>::max())
    user_error("get-dimension-size: {} of {} is no s32", size, node.operand(0)->name());
  return Partitioned{hlo::constant(spmd.local(), Array::scalar(static_cast<int32_t>(size))),
                     Sharding::replicated()};
}

std::optional<Partitioned> partition_special(SpmdPartitioner& spmd, Node& node) {
  switch (node.opcode()) {
    case Opcode::dynamic_slice:
      return partition_dynamic_slice(spmd, node);
    case Opcode::dynamic_update_slice:
      return partition_dynamic_update_slice(spmd, node);
    case Opcode::gather:
      return partition_gather(spmd, node);
    case Opcode::scatter:
      return partition_scatter(spmd, node);
    case Opcode::reshape:
      return partition_uneven_reshape(spmd, node);
    case Opcode::reduce:
      return partition_variadic_reduce(spmd, node);
    case Opcode::reduce_window:
      return partition_cumulative(spmd, node);
    case Opcode::scan:
      return partition_scan(spmd, node);
    case Opcode::sort:
      return partition_sort(spmd, node);
    case Opcode::concatenate:
      return partition_concatenate(spmd, node);
    case Opcode::slice:
      if (auto first = partition_slice_of_sort(spmd, node)) return first;
      return partition_short_slice(spmd, node);
    case Opcode::topk:
      return partition_topk(spmd, node);
    case Opcode::reverse:
      return partition_reverse(spmd, node);
    case Opcode::select_and_scatter:
      return partition_select_and_scatter(spmd, node);
    case Opcode::fft:
      return partition_fft(spmd, node);
    case Opcode::rng_bit_generator:
      return partition_rng_bit_generator(spmd, node);
    case Opcode::rng:
      return partition_rng(spmd, node);
    case Opcode::get_dimension_size:
      return partition_get_dimension_size(spmd, node);
    default:
      return std::nullopt;
  }
}

}  // namespace gspmd
