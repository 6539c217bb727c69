#include "ops/index_partition.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}
int64_t position(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) - dims.begin();
}

// Where the dims of the windowed side (gather's result, scatter's updates) and of the indexed
// operand come from. Gather and scatter name these differently and otherwise agree.
struct IndexDims {
  Dims window_dims;  // of the result (updates)
  Dims removed;      // operand dims that windows do not have
  Dims index_map;    // index component -> operand dim
  Dims operand_batching, indices_batching;
  int64_t index_vector_dim = 0;
};

// One dim of the windowed side, and what it is in the operand or in the indices (-1: not there).
struct WindowedDim {
  int64_t operand = -1;
  int64_t indices = -1;
  bool full = false;  // the window covers the whole operand dim
};

std::vector<WindowedDim> windowed_dims(const IndexDims& dims, const Node& operand,
                                       const Node& indices, const Dims& windowed) {
  std::vector<int64_t> kept, batch;
  for (int64_t d = 0; d < operand.rank(); ++d)
    if (!contains(dims.removed, d) && !contains(dims.operand_batching, d)) kept.push_back(d);
  for (int64_t d = 0; d < indices.rank(); ++d)
    if (d != dims.index_vector_dim) batch.push_back(d);
  std::vector<WindowedDim> result(windowed.size());
  size_t next_kept = 0, next_batch = 0;
  for (size_t r = 0; r < windowed.size(); ++r) {
    if (contains(dims.window_dims, static_cast<int64_t>(r))) {
      result[r].operand = kept.at(next_kept++);
      result[r].full = windowed[r] == operand.dim(result[r].operand);
      continue;
    }
    result[r].indices = batch.at(next_batch++);
    if (contains(dims.indices_batching, result[r].indices))
      result[r].operand = dims.operand_batching.at(
          static_cast<size_t>(position(dims.indices_batching, result[r].indices)));
  }
  return result;
}

// Digits being handed out to dims, each at most once.
struct Budget {
  Digits used;
  bool take(Digits& slot, const Digits& digits) {
    if (digits.empty() || !slot.empty() || !disjoint(digits, used)) return false;
    slot = digits;
    used = concat(used, digits);
    return true;
  }
};

Digits in_order(const Sharding& s, int64_t dim, DeviceOrder order) {
  return s.order() == order ? s.dim(dim) : Digits{};
}

Sharding partial(DeviceOrder order, std::vector<Digits> dims, const Digits& summed,
                 Combiner combiner) {
  std::vector<Unreduced> unreduced(1);
  unreduced[0].digits = summed;
  unreduced[0].combiner = combiner;
  return Sharding::tiled(order, std::move(dims), {}, std::move(unreduced));
}

Sharding layout(DeviceOrder order, std::vector<Digits> dims) {
  return order ? Sharding::tiled(order, std::move(dims)) : Sharding::replicated();
}

DeviceOrder common_order(std::initializer_list<const Sharding*> shardings) {
  for (const Sharding* s : shardings)
    if (s->order()) return s->order();
  return nullptr;
}

// Indices of one component, shape without... with the index vector dim kept as size 1 where it
// exists.
Node* component(Node* indices, int64_t index_vector_dim, int64_t k) {
  if (index_vector_dim >= indices->rank()) return indices;
  Dims starts(static_cast<size_t>(indices->rank()), 0), limits = indices->dims();
  starts[static_cast<size_t>(index_vector_dim)] = k;
  limits[static_cast<size_t>(index_vector_dim)] = k + 1;
  return hlo::slice(indices, starts, limits, Dims(starts.size(), 1));
}

struct ShiftedIndices {
  Node* indices = nullptr;
  Node* in_shard = nullptr;  // pred of the batch dims (index vector dim dropped); null: all are
};

// Makes indices relative to this device's shard on the operand dims that `operand` splits. With
// `clamp` they are first clamped as gather does, and `in_shard` says whose index it is.
ShiftedIndices shift_indices(PartitionContext& context, Node* indices, const IndexDims& dims,
                             const Shape& global_operand, const Sharding& operand, bool clamp) {
  Computation& c = context.local();
  const bool wide = indices->shape.dtype == DType::s64 || indices->shape.dtype == DType::u64 ||
                    indices->shape.dtype == DType::u32;
  const DType type = wide ? DType::s64 : DType::s32;
  indices = hlo::convert(indices, type);
  ShiftedIndices result;
  std::vector<Node*> parts;
  for (size_t k = 0; k < dims.index_map.size(); ++k) {
    const int64_t d = dims.index_map[k];
    Node* part = component(indices, dims.index_vector_dim, static_cast<int64_t>(k));
    if (!operand.dim(d).empty()) {
      const Shape shape(type, part->dims());
      const int64_t size = global_operand.dims[static_cast<size_t>(d)];
      if (clamp) {
        part = hlo::binary(Opcode::maximum, part, hlo::splat(c, shape, 0));
        part = hlo::binary(Opcode::minimum, part, hlo::splat(c, shape, double(size - 1)));
      }
      Node* start = hlo::convert(context.offset(operand, global_operand, d), type);
      part = hlo::binary(Opcode::subtract, part, hlo::broadcast(start, shape.dims, {}));
      if (clamp) {
        const int64_t shard = ceil_div(size, operand.tiles(d));
        Node* mine =
            hlo::binary(Opcode::and_, hlo::compare(part, hlo::splat(c, shape, 0), Direction::ge),
                        hlo::compare(part, hlo::splat(c, shape, double(shard)), Direction::lt));
        result.in_shard = result.in_shard ? hlo::binary(Opcode::and_, result.in_shard, mine) : mine;
      }
    }
    parts.push_back(part);
  }
  const bool has_vector = dims.index_vector_dim < indices->rank();
  result.indices = has_vector && parts.size() > 1 ? hlo::concatenate(parts, dims.index_vector_dim)
                   : parts.empty()                ? indices
                                                  : parts[0];
  if (result.in_shard && has_vector) {
    Dims batch = result.in_shard->dims();
    batch.erase(batch.begin() + dims.index_vector_dim);
    result.in_shard = hlo::reshape(result.in_shard, batch);
  }
  return result;
}

// Operand dims whose windows are single elements found by an index: a device without the element
// has nothing to give.
Dims single_element_dims(const IndexDims& dims, const Dims& window_sizes) {
  Dims result;
  for (const int64_t d : dims.index_map)
    if (contains(dims.removed, d) &&
        (window_sizes.empty() || window_sizes[static_cast<size_t>(d)] == 1))
      result.push_back(d);
  return result;
}

}  // namespace

// Loops over indices follow the result; whole-window dims follow operand and result where they
// agree; a split indexed dim is looked up locally, masked, and summed over its devices.
Partitioned partition_gather(PartitionContext& context, Node& node) {
  Node& operand = *node.operand(0);
  Node& indices = *node.operand(1);
  const GatherDims& g = node.attrs.gather;
  const IndexDims dims{g.offset_dims,           g.collapsed_slice_dims,        g.start_index_map,
                       g.operand_batching_dims, g.start_indices_batching_dims, g.index_vector_dim};
  const Sharding& want = context.sharding(node);
  const Sharding& have = context.sharding(operand);
  const DeviceOrder order = common_order({&want, &have, &context.sharding(indices)});
  const std::vector<WindowedDim> windowed = windowed_dims(dims, operand, indices, node.dims());
  std::vector<Digits> result(node.dims().size()), from(operand.dims().size()),
      at(indices.dims().size());
  Budget budget;
  for (size_t r = 0; r < windowed.size(); ++r) {
    const Digits wanted = in_order(want, static_cast<int64_t>(r), order);
    if (windowed[r].indices >= 0)
      budget.take(result[r], wanted);
    else if (windowed[r].full)
      budget.take(result[r], common_prefix(wanted, in_order(have, windowed[r].operand, order)));
  }
  Digits summed;
  for (const int64_t d : single_element_dims(dims, node.attrs.slice_sizes))
    if (budget.take(from[static_cast<size_t>(d)], in_order(have, d, order)))
      summed = concat(summed, from[static_cast<size_t>(d)]);
  for (size_t r = 0; r < windowed.size(); ++r) {
    if (windowed[r].indices < 0 && windowed[r].full)
      budget.take(result[r], in_order(want, static_cast<int64_t>(r), order));
    if (windowed[r].operand >= 0) from[static_cast<size_t>(windowed[r].operand)] = result[r];
    if (windowed[r].indices >= 0) at[static_cast<size_t>(windowed[r].indices)] = result[r];
  }
  const Sharding operand_layout = layout(order, from), result_layout = layout(order, result);
  Node* table = context.reshard(&operand, operand_layout);
  Node* index = context.reshard(&indices, layout(order, at));
  ShiftedIndices shifted{index, nullptr};
  if (!summed.empty())
    shifted = shift_indices(context, index, dims, operand.shape, operand_layout, true);
  Attributes attrs = node.attrs;
  for (size_t r = 0; r < windowed.size(); ++r)
    if (windowed[r].indices < 0 && windowed[r].full)
      attrs.slice_sizes[static_cast<size_t>(windowed[r].operand)] = table->dim(windowed[r].operand);
  const Shape shape = local_shape(node.shape, result_layout);
  Node* local = context.emit(Opcode::gather, shape, {table, shifted.indices}, attrs);
  if (summed.empty()) return {local, result_layout};
  Dims batch;
  for (size_t r = 0; r < windowed.size(); ++r)
    if (windowed[r].indices >= 0) batch.push_back(static_cast<int64_t>(r));
  const Combiner combiner = shape.dtype == DType::pred ? Combiner::logical_or : Combiner::sum;
  local =
      hlo::select(hlo::broadcast(shifted.in_shard, shape.dims, batch), local,
                  hlo::splat(context.local(), shape, neutral_contribution(combiner, shape.dtype)));
  return {local, partial(order, result, summed, combiner)};
}

namespace {

bool is_identity(const Node& node, Combiner combiner) {
  const Node* value = &node;
  while (value->is(Opcode::broadcast)) value = value->operand(0);
  if (!value->is(Opcode::constant) || is_complex(value->shape.dtype)) return false;
  for (int64_t i = 0; i < value->attrs.literal.size(); ++i)
    if (value->attrs.literal.at(i) != combiner_identity(combiner, value->shape.dtype)) return false;
  return value->attrs.literal.size() <= 64 || value->rank() == 0;
}

// How a scatter's operand, indices and updates are split.
struct ScatterSpread {
  DeviceOrder order = nullptr;
  std::vector<Digits> operand, indices, updates;
  Digits summed;         // digits of update batches, spread when the combiner is known
  bool shifted = false;  // an indexed operand dim is split
};

ScatterSpread spread_scatter(PartitionContext& context, Node& node, const IndexDims& dims,
                             const std::vector<WindowedDim>& windowed, bool may_sum) {
  Node& operand = *node.operand(0);
  Node& indices = *node.operand(1);
  Node& updates = *node.operand(2);
  const Sharding& want = context.sharding(node);
  const Sharding& at = context.sharding(indices);
  const Sharding& given = context.sharding(updates);
  ScatterSpread s;
  s.order = common_order({&want, &given, &at});
  s.operand.resize(operand.dims().size());
  s.indices.resize(indices.dims().size());
  s.updates.resize(updates.dims().size());
  Budget budget;
  for (const int64_t d : single_element_dims(dims, {}))
    if (budget.take(s.operand[static_cast<size_t>(d)], in_order(want, d, s.order)))
      s.shifted = true;
  for (size_t u = 0; u < windowed.size(); ++u) {
    const Digits digits = in_order(given, static_cast<int64_t>(u), s.order);
    const WindowedDim& dim = windowed[u];
    if (dim.operand >= 0 && dim.indices >= 0)
      budget.take(s.updates[u], in_order(want, dim.operand, s.order));
    else if (dim.operand >= 0 && dim.full)
      budget.take(s.updates[u], common_prefix(digits, in_order(want, dim.operand, s.order)));
    else if (dim.indices >= 0 && may_sum && budget.take(s.updates[u], digits))
      s.summed = concat(s.summed, digits);
  }
  for (size_t u = 0; u < windowed.size(); ++u) {
    const WindowedDim& dim = windowed[u];
    if (dim.indices < 0 && dim.full)
      budget.take(s.updates[u], in_order(want, dim.operand, s.order));
    if (dim.operand >= 0) s.operand[static_cast<size_t>(dim.operand)] = s.updates[u];
    if (dim.indices >= 0) s.indices[static_cast<size_t>(dim.indices)] = s.updates[u];
  }
  return s;
}

}  // namespace

namespace {

// Several arrays at once: every device has all of them.
Partitioned scatter_whole(PartitionContext& context, Node& node) {
  std::vector<Node*> operands;
  for (Node* operand : node.operands())
    operands.push_back(context.reshard(operand, Sharding::replicated()));
  const auto results = static_cast<size_t>(leaf_count(node.shape));
  return {context.emit(Opcode::scatter, node.shape, std::move(operands), node.attrs,
                       {context.local_computation(*node.called.at(0))}),
          node.shape.is_tuple ? Sharding::tuple(std::vector<Sharding>(results)) : Sharding()};
}

}  // namespace

// Split update batches make partial sums, wanted by the combiner; a split indexed dim drops what
// belongs to other devices, without communication.
Partitioned partition_scatter(PartitionContext& context, Node& node) {
  if (node.operands().size() != 3) return scatter_whole(context, node);
  Node& operand = *node.operand(0);
  const ScatterDims& a = node.attrs.scatter;
  const IndexDims dims{
      a.update_window_dims,  a.inserted_window_dims,          a.scatter_dims_to_operand_dims,
      a.input_batching_dims, a.scatter_indices_batching_dims, a.index_vector_dim};
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.at(0));
  const std::vector<WindowedDim> windowed =
      windowed_dims(dims, operand, *node.operand(1), node.operand(2)->dims());
  const ScatterSpread s = spread_scatter(context, node, dims, windowed, combiner.has_value());
  const Sharding result = layout(s.order, s.operand), at = layout(s.order, s.indices);
  Node* index = context.reshard(node.operand(1), at);
  if (s.shifted || !s.summed.empty())
    index = shift_indices(context, index, dims, node.shape, result, false).indices;
  if (!s.summed.empty()) {
    std::vector<int64_t> batch;
    for (const WindowedDim& dim : windowed)
      if (dim.indices >= 0) batch.push_back(dim.indices);
    index = context.mask_tail(index, node.operand(1)->shape, at, batch,
                              hlo::scalar(context.local(), index->shape.dtype, -1));
  }
  Node* updates = context.reshard(node.operand(2), layout(s.order, s.updates));
  const Shape shape = local_shape(node.shape, result);
  const bool starts_clean = combiner && is_identity(operand, *combiner);
  const bool later = !s.summed.empty() && !starts_clean;
  Node* base =
      later ? hlo::splat(context.local(), shape, neutral_contribution(*combiner, shape.dtype))
            : context.reshard(&operand, result);
  Node* local = context.emit(Opcode::scatter, shape, {base, index, updates}, node.attrs,
                             {context.local_computation(*node.called[0])});
  if (s.summed.empty()) return {local, result};
  const Partitioned pieces{local, partial(s.order, s.operand, s.summed, *combiner)};
  if (!later) return pieces;
  Node* sum = context.reshard(pieces, node.shape, result);
  return {hlo::binary(combiner_opcode(*combiner), context.reshard(&operand, result), sum), result};
}

}  // namespace gspmd
