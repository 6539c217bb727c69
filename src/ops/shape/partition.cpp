#include <limits>

#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/emission/factor_sharding.h"
#include "ops/shape/reshape_sharding.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

bool is_splat(const Array& literal) {
  const std::span<std::byte> bytes = literal.bytes();
  const auto size = static_cast<size_t>(dtype_size(literal.dtype()));
  for (size_t i = size; i < bytes.size(); ++i)
    if (bytes[i] != bytes[i - size]) return false;
  return literal.size() > 0;
}

// Up to which whole numbers are of the type, and sums of them exact; integers wrap around alike.
int64_t exact_integers(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128:
      return int64_t{1} << 53;
    case DType::f32:
    case DType::c64:
      return int64_t{1} << 24;
    case DType::f16:
      return 1 << 11;
    case DType::bf16:
      return 1 << 8;
    default:
      return is_floating(dtype) ? 0 : std::numeric_limits<int64_t>::max();
  }
}

}  // namespace

// The operand goes to a layout whose every digit survives the reshape: what the result wants, seen
// from the operand, or the part of the operand's own layout that survives; the shards are then
// reshaped.
MaybePartitioned partition_reshape(PartitionContext& context, Node& node) {
  if (auto uneven = partition_uneven_reshape(context, node)) return uneven;
  Node* operand = node.operand(0);
  const Dims& from = operand->dims();
  const Dims& to = node.dims();
  const bool keep = context.keeps_unreduced(node, 0);
  const std::vector<Unreduced> sums =
      keep ? context.held(operand).sharding.unreduced() : std::vector<Unreduced>{};
  const Sharding have =
      keep ? context.held(operand).sharding.with_unreduced({}) : context.sharding(*operand);
  const Sharding& want = context.sharding(node);
  Sharding layout = have;
  if (!carries_all(from, to, layout)) {
    layout = reshape_sharding(to, from, want);
    if (keep || layout.num_tiles() < want.num_tiles() || !carries_all(from, to, layout))
      layout = reshape_sharding(to, from, reshape_sharding(from, to, have));
    if (!carries_all(from, to, layout)) layout = Sharding::replicated();
  }
  Sharding result = reshape_sharding(from, to, layout);
  if (keep) {
    const DeviceOrder order = context.held(operand).sharding.order();
    layout = with_unreduced(layout, order, sums);
    result = with_unreduced(result, order, sums);
  }
  Node* local = context.reshard(operand, layout);
  return Partitioned{hlo::reshape(local, local_shape(node.shape, result).dims), result};
}

MaybePartitioned partition_iota(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  const Shape shape = local_shape(node.shape, s);
  const int64_t dim = node.attrs.index;
  if (s.dim(dim).empty()) return Partitioned{hlo::iota(context.local(), shape, dim), s};
  // The sum of two rounded numbers is not the rounded sum: a part is counted in integers then.
  const int64_t padded = shape.dims[static_cast<size_t>(dim)] * s.tiles(dim);
  const bool counts = padded > exact_integers(shape.dtype);
  const DType counted = !counts                                        ? shape.dtype
                        : padded > std::numeric_limits<int32_t>::max() ? DType::s64
                                                                       : DType::s32;
  Shape whole_numbers = shape;
  whole_numbers.dtype = counted;
  Node* const local = hlo::iota(context.local(), std::move(whole_numbers), dim);
  Node* const start = hlo::convert(context.offset(s, node.shape, dim), counted);
  Node* const sum = hlo::add(local, hlo::broadcast(start, shape.dims, {}));
  return Partitioned{counts ? hlo::convert(sum, shape.dtype) : sum, s};
}

MaybePartitioned partition_constant(PartitionContext& context, Node& node) {
  const Sharding& s = context.sharding(node);
  Computation& c = context.local();
  if (node.attrs.literal.empty())  // cut, like any other whose elements differ
    return Partitioned{context.emit(Opcode::constant, node.shape, {}, node.attrs),
                       Sharding::replicated()};
  if (node.rank() > 0 && is_splat(node.attrs.literal)) {
    Array scalar(node.shape.dtype, {});
    const auto size = static_cast<size_t>(dtype_size(node.shape.dtype));
    std::memcpy(scalar.bytes().data(), node.attrs.literal.bytes().data(), size);
    return Partitioned{
        hlo::broadcast(hlo::constant(c, scalar), local_shape(node.shape, s).dims, {}), s};
  }
  return Partitioned{hlo::constant(c, node.attrs.literal), Sharding::replicated()};
}

MaybePartitioned partition_slice(PartitionContext& context, Node& node) {
  if (auto first = partition_slice_of_sort(context, node)) return first;
  if (auto short_one = partition_short_slice(context, node)) return short_one;
  return partition_split(context, node);
}

}  // namespace gspmd
