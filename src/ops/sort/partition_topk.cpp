// Orders and choices along a split dim in two levels: of each device, then of what all devices have
// chosen.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/emission/collectives.h"
#include "ops/emission/exchange.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

Sharding layout_of(const Sharding& s, const std::vector<Digits>& dims) {
  return Sharding::tiled(s.order(), dims, s.manual_digits());
}

bool is_order_type(DType type) { return is_floating(type) || is_integer(type); }

}  // namespace

std::optional<Partitioned> partition_topk(PartitionContext& spmd, Node& node) {
  Node* operand = node.operand(0);
  const Sharding have = spmd.sharding(*operand);
  const auto form = top_k_form(node);
  if (!form) return std::nullopt;
  const int64_t last = operand->rank() - 1, k = form->k;
  if (!have.is_tiled() || have.dim(last).empty() || k == 0 || !is_order_type(operand->shape.dtype))
    return std::nullopt;
  if (operand->shape.elements_count() == 0 || operand->dim(last) >= (int64_t(1) << 28))
    return std::nullopt;
  const Digits& split = have.dim(last);
  const int64_t shard = ceil_div(operand->dim(last), tile_count(split)), mine = std::min(k, shard);
  if (mine == shard) return std::nullopt;  // every element goes on: the dim is gathered
  Computation& c = spmd.local();
  const DType type = operand->shape.dtype;
  Node* x = spmd.mask_tail(spmd.reshard(operand, have), operand->shape, have, {last},
                           hlo::constant(c, last_of_order(type, form->largest)));
  Shape values(type, x->dims()), places(DType::s32, x->dims());
  values.dims.back() = places.dims.back() = mine;
  Attributes attrs;
  attrs.scalar.edit().largest = form->largest;
  attrs.scalar.edit().k = mine;
  Node* first = spmd.emit(Opcode::topk, Shape::tuple({values, places}), {x}, attrs);
  Node* begin = hlo::broadcast(spmd.offset(have, operand->shape, last), places.dims, {});
  Node* place = hlo::add(hlo::get_tuple_element(first, 1), begin);
  Node* all_values =
      gather_along(spmd, hlo::get_tuple_element(first, 0), last, have.order(), split);
  Node* all_places = gather_along(spmd, place, last, have.order(), split);
  values.dims.back() = places.dims.back() = k;
  attrs.scalar.edit().k = k;
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
