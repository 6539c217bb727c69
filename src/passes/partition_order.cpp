// Orders and choices along a split dim in two levels: of each device, then of what all devices have
// chosen.

#include <algorithm>
#include <limits>

#include "gspmd/ops/builders.h"
#include "gspmd/ops/evaluate.h"
#include "passes/manual.h"
#include "passes/partition_special.h"

namespace gspmd {
namespace {

Node* gather_dim(SpmdPartitioner& spmd, Node* x, int64_t dim, DeviceOrder order,
                 const Digits& digits) {
  Attributes attrs;
  attrs.replica_groups = spmd.groups(order, digits);
  attrs.channel_id = 1;
  attrs.use_global_device_ids = true;
  attrs.dimensions = {dim};
  Shape shape = x->shape;
  shape.dims[static_cast<size_t>(dim)] *= tile_count(digits);
  return spmd.emit(Opcode::all_gather, shape, {x}, attrs);
}

// Whether the initial values, all constants, change nothing: tried on tuples of numbers.
bool starts_neutral(const Node& node) {
  const size_t count = node.operands().size() / 2;
  for (size_t i = count; i < node.operands().size(); ++i)
    if (!node.operands()[i]->is(Opcode::constant)) return false;
  for (int64_t sample = 0; sample < 8; ++sample) {
    std::vector<Value> arguments;
    for (size_t i = 0; i < count; ++i)
      arguments.push_back({node.operands()[count + i]->attrs.literal, {}, false});
    std::vector<Array> values;
    for (size_t i = 0; i < count; ++i) {
      Array value(node.operands()[i]->shape.dtype, {});
      value.set(0, static_cast<double>((sample * 5 + static_cast<int64_t>(i) * 3) % 7 + sample));
      values.push_back(value);
      arguments.push_back({value, {}, false});
    }
    const std::vector<Array> result = leaves(evaluate(*node.called.at(0), arguments));
    for (size_t i = 0; i < count; ++i)
      if (!bitwise_equal(result[i], values[i])) return false;
  }
  return true;
}

Sharding layout_of(const Sharding& s, const std::vector<Digits>& dims) {
  return Sharding::tiled(s.order(), dims, s.manual_digits());
}

bool is_order_type(DType type) { return is_floating(type) || is_integer(type); }

}  // namespace

std::optional<Partitioned> partition_variadic_reduce(SpmdPartitioner& spmd, Node& node) {
  const size_t count = node.operands().size() / 2;
  if (count < 2 || node.attrs.dimensions.empty()) return std::nullopt;
  const Sharding have = spmd.sharding(*node.operand(0));
  if (!have.is_tiled() || !have.order()) return std::nullopt;
  const auto reduced = [&](int64_t d) {
    const Dims& dims = node.attrs.dimensions;
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  Digits split;
  std::vector<Digits> dims, kept;
  std::vector<int64_t> masked;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    dims.push_back(have.dim(d));
    if (!reduced(d)) {
      kept.push_back(have.dim(d));
    } else if (!have.dim(d).empty()) {
      split = concat(split, have.dim(d));
      masked.push_back(d);
    }
  }
  if (split.empty() || !starts_neutral(node)) return std::nullopt;
  const Sharding layout = layout_of(have, dims);
  std::vector<Node*> operands, partials, starts;
  for (size_t i = 0; i < count; ++i) {
    starts.push_back(spmd.reshard(node.operands()[count + i], Sharding::replicated()));
    operands.push_back(spmd.mask_tail(spmd.reshard(node.operands()[i], layout),
                                      node.operands()[i]->shape, layout, masked, starts[i]));
  }
  operands.insert(operands.end(), starts.begin(), starts.end());
  Computation* apply = spmd.local_computation(*node.called.at(0));
  const Sharding result = layout_of(have, kept);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  std::vector<Shape> parts;
  for (const Shape& shape : shapes) parts.push_back(local_shape(shape, result));
  Node* first = spmd.emit(Opcode::reduce, Shape::tuple(parts), operands, node.attrs, {apply});
  for (size_t i = 0; i < count; ++i) {
    Dims one = parts[i].dims;
    one.insert(one.begin(), 1);
    Node* mine = hlo::reshape(hlo::get_tuple_element(first, static_cast<int64_t>(i)), one);
    partials.push_back(gather_dim(spmd, mine, 0, have.order(), split));
  }
  partials.insert(partials.end(), starts.begin(), starts.end());
  Attributes attrs = node.attrs;
  attrs.dimensions = {0};
  Node* all = spmd.emit(Opcode::reduce, Shape::tuple(parts), partials, attrs, {apply});
  return Partitioned{all, Sharding::tuple(std::vector<Sharding>(count, result))};
}

std::optional<Partitioned> partition_topk(SpmdPartitioner& spmd, Node& node) {
  Node* operand = node.operand(0);
  const Sharding have = spmd.sharding(*operand);
  const int64_t last = operand->rank() - 1, k = node.attrs.scalar->k;
  if (!have.is_tiled() || have.dim(last).empty() || k == 0 || !is_order_type(operand->shape.dtype))
    return std::nullopt;
  if (operand->shape.elements_count() == 0 || operand->dim(last) >= (int64_t(1) << 28))
    return std::nullopt;
  const Digits split = have.dim(last);
  const int64_t shard = ceil_div(operand->dim(last), tile_count(split)), mine = std::min(k, shard);
  if (mine == shard) return std::nullopt;  // every element goes on: the dim is gathered
  Computation& c = spmd.local();
  const DType type = operand->shape.dtype;
  const Combiner worst = node.attrs.scalar->largest ? Combiner::max : Combiner::min;
  Node* x = spmd.mask_tail(spmd.reshard(operand, have), operand->shape, have, {last},
                           hlo::scalar(c, type, combiner_identity(worst, type)));
  Shape values(type, x->dims()), places(DType::s32, x->dims());
  values.dims.back() = places.dims.back() = mine;
  Attributes attrs = node.attrs;
  attrs.scalar->k = mine;
  Node* first = spmd.emit(Opcode::topk, Shape::tuple({values, places}), {x}, attrs);
  Node* begin = hlo::broadcast(spmd.offset(have, operand->shape, last), places.dims, {});
  Node* place = hlo::binary(Opcode::add, hlo::get_tuple_element(first, 1), begin);
  Node* all_values = gather_dim(spmd, hlo::get_tuple_element(first, 0), last, have.order(), split);
  Node* all_places = gather_dim(spmd, place, last, have.order(), split);
  values.dims.back() = places.dims.back() = k;
  attrs.scalar->k = k;
  Node* best = spmd.emit(Opcode::topk, Shape::tuple({values, places}), {all_values}, attrs);
  GatherDims g;
  for (int64_t d = 0; d < last; ++d) {
    g.operand_batching_dims.push_back(d);
    g.start_indices_batching_dims.push_back(d);
  }
  g.collapsed_slice_dims = g.start_index_map = {last};
  g.index_vector_dim = last + 1;
  Node* chosen = hlo::gather(all_places, hlo::get_tuple_element(best, 1), g,
                             Dims(static_cast<size_t>(last) + 1, 1));
  std::vector<Digits> dims;
  for (int64_t d = 0; d <= last; ++d) dims.push_back(d == last ? Digits{} : have.dim(d));
  const Sharding result = layout_of(have, dims);
  return Partitioned{hlo::tuple(c, {hlo::get_tuple_element(best, 0), chosen}),
                     Sharding::tuple({result, result})};
}

std::optional<Partitioned> partition_special(SpmdPartitioner& spmd, Node& node) {
  if (node.is(Opcode::dynamic_slice)) return partition_dynamic_slice(spmd, node);
  if (node.is(Opcode::dynamic_update_slice)) return partition_dynamic_update_slice(spmd, node);
  if (node.is(Opcode::gather)) return partition_gather(spmd, node);
  if (node.is(Opcode::scatter)) return partition_scatter(spmd, node);
  if (node.is(Opcode::reshape)) return partition_uneven_reshape(spmd, node);
  if (node.is(Opcode::reduce)) return partition_variadic_reduce(spmd, node);
  if (node.is(Opcode::topk)) return partition_topk(spmd, node);
  if (node.is(Opcode::select_and_scatter)) return partition_select_and_scatter(spmd, node);
  return std::nullopt;
}

}  // namespace gspmd
