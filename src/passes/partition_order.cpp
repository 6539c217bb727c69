// Orders and choices along a split dim in two levels: of each device, then of what all devices have
// chosen.

#include <algorithm>
#include <cmath>

#include "gspmd/ops/builders.h"
#include "gspmd/ops/evaluate.h"
#include "passes/manual.h"
#include "passes/partition_special.h"

namespace gspmd {
namespace {

Sharding layout_of(const Sharding& s, const std::vector<Digits>& dims) {
  return Sharding::tiled(s.order(), dims, s.manual_digits());
}

bool is_order_type(DType type) { return is_floating(type) || is_integer(type); }

}  // namespace

Node* gather_along(SpmdPartitioner& spmd, Node* x, int64_t dim, DeviceOrder order,
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

bool starts_neutral(const Node& node) {
  const size_t count = node.operands().size() / 2;
  std::vector<Value> starts;
  for (size_t i = 0; i < count; ++i) {
    const Node& start = *node.operands()[count + i];
    if (!start.is(Opcode::constant) || is_complex(start.shape.dtype)) return false;
    starts.push_back({start.attrs.literal, {}, false});
  }
  constexpr double kSamples[] = {1, 0, -1, 3, -7, 0.5, 100, -120, 64, -0.25, 5, 6};
  constexpr size_t kCount = std::size(kSamples);
  for (size_t sample = 0; sample < kCount; ++sample) {
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) {
      Array value(starts[i].array.dtype(), {});
      const double number = kSamples[(sample * (i + 1) + i) % kCount];
      value.set(0, is_unsigned_integer(value.dtype()) ? std::abs(number) : number);
      values.push_back({value, {}, false});
    }
    for (const bool first : {true, false}) {  // before a value, and behind it
      std::vector<Value> arguments = first ? starts : values;
      const std::vector<Value>& rest = first ? values : starts;
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      const std::vector<Array> result = leaves(evaluate(*node.called.at(0), arguments));
      for (size_t i = 0; i < count; ++i)
        if (!bitwise_equal(result[i], values[i].array)) return false;
    }
  }
  return true;
}

std::optional<Partitioned> partition_variadic_reduce(SpmdPartitioner& spmd, Node& node) {
  const size_t count = node.operands().size() / 2;
  if (node.attrs.dimensions.empty() || (count == 1 && recognize_combiner(*node.called.at(0))))
    return std::nullopt;
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
  const Shape all_parts = node.shape.is_tuple ? Shape::tuple(parts) : parts.at(0);
  Node* first = spmd.emit(Opcode::reduce, all_parts, operands, node.attrs, {apply});
  for (size_t i = 0; i < count; ++i) {
    Dims one = parts[i].dims;
    one.insert(one.begin(), 1);
    Node* part =
        node.shape.is_tuple ? hlo::get_tuple_element(first, static_cast<int64_t>(i)) : first;
    Node* mine = hlo::reshape(part, one);
    partials.push_back(gather_along(spmd, mine, 0, have.order(), split));
  }
  partials.insert(partials.end(), starts.begin(), starts.end());
  Attributes attrs = node.attrs;
  attrs.dimensions = {0};
  Node* all = spmd.emit(Opcode::reduce, all_parts, partials, attrs, {apply});
  if (!node.shape.is_tuple) return Partitioned{all, result};
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
  Node* all_values =
      gather_along(spmd, hlo::get_tuple_element(first, 0), last, have.order(), split);
  Node* all_places = gather_along(spmd, place, last, have.order(), split);
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

}  // namespace gspmd
