#include "passes/partition/manual.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/control/control.h"

namespace gspmd {
namespace {

size_t at(int64_t d) { return static_cast<size_t>(d); }

// Nodes that partition values of any layout, manual ones too, by what they call or hold.
bool is_structural(const Node& node) {
  return node.is(Opcode::parameter) || node.is(Opcode::tuple) ||
         node.is(Opcode::get_tuple_element) || node.is(Opcode::while_) ||
         node.is(Opcode::conditional) || node.is(Opcode::optimization_barrier);
}

void check_part(const Node& node, const Shape& part, const Shape& expected) {
  if (part.dims != expected.dims)
    user_error("{}: {} makes {} of shards of {}; the sharding of its operand and its shapes differ",
               *node.attrs.custom_call_target, node.name(), to_string(expected), to_string(part));
}

// Digits of dim d of a whole value: those that become manual, then what the region's own layout
// has.
std::vector<Digits> outside_dims(const Sharding& whole, const Sharding& inside, int64_t rank) {
  std::vector<Digits> dims;
  for (int64_t d = 0; d < rank; ++d) {
    const auto manual = intersection(whole.dim(d), inside.manual_digits());
    dims.push_back(concat(manual ? *manual : Digits{}, inside.dim(d)));
  }
  return dims;
}

// The region's layout of a part, without the digits of dims that also have manual ones and are cut
// unevenly: shards of such parts are no shards of the whole value.
Sharding fitting_border(const Sharding& whole, const Sharding& inside, const Shape& part) {
  if (!has_manual_digits(inside)) return inside;
  std::vector<Digits> dims = dims_of(inside, part.rank());
  for (int64_t d = 0; d < part.rank(); ++d)
    if (!disjoint(whole.dim(d), inside.manual_digits()) && part.dims[at(d)] % inside.tiles(d) != 0)
      dims[at(d)].clear();
  return Sharding::tiled(inside.order(), std::move(dims), inside.manual_digits(),
                         inside.unreduced());
}

Partitioned start_region(PartitionContext& spmd, Node& node) {
  Node* operand = node.operand(0);
  Sharding outside = spmd.sharding(*operand);
  const Sharding inside = fitting_border(outside, spmd.sharding(node), node.shape);
  if (has_manual_digits(inside) && !has_manual_digits(outside))
    outside = Sharding::tiled(inside.order(), outside_dims(outside, inside, operand->rank()));
  Node* local = spmd.reshard(operand, outside);
  // What lies behind the end of the whole value reads as zero in the region.
  std::vector<int64_t> all(static_cast<size_t>(operand->rank()));
  for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
  local = spmd.mask_tail(local, operand->shape, outside, all,
                         hlo::scalar(spmd.local(), operand->shape.dtype, 0));
  check_part(node, local->shape, local_shape(node.shape, inside));
  return {local, inside};
}

Partitioned end_region(PartitionContext& spmd, Node& node) {
  Node* operand = node.operand(0);
  Sharding outside = spmd.sharding(node);
  const Sharding inside = fitting_border(outside, spmd.sharding(*operand), operand->shape);
  if (has_manual_digits(inside))
    outside = Sharding::tiled(inside.order(), outside_dims(outside, inside, node.rank()),
                              outside.manual_digits());
  Node* local = spmd.reshard(operand, inside);
  check_part(node, local->shape, local_shape(node.shape, outside));
  return {local, outside};
}

Node* as_region_has_it(PartitionContext& spmd, Node* operand) {
  if (operand->shape.is_tuple) return spmd.held(operand).local;
  const Sharding& s = spmd.sharding(*operand);
  return s.is_manual() ? spmd.held(operand).local : spmd.reshard(operand, Sharding::replicated());
}

// The user's own program, as it is.
Partitioned repeat(PartitionContext& spmd, Node& node) {
  std::vector<Node*> operands;
  for (Node* operand : node.operands()) operands.push_back(as_region_has_it(spmd, operand));
  std::vector<Computation*> called;
  for (const Computation* computation : node.called)
    called.push_back(spmd.local_computation(*computation));
  Attributes attrs = node.attrs;
  Node* local = spmd.emit(node.opcode(), node.shape, std::move(operands), std::move(attrs),
                          std::move(called));
  return {local, spmd.sharding(node)};
}

// A collective of the user's over manual digits: each device does it on its part along the others.
// Dims that it cuts or joins are whole.
Partitioned collective_in_region(PartitionContext& spmd, Node& node) {
  const Sharding& results = spmd.sharding(node);
  std::vector<Shape> shapes = leaf_shapes(node.shape);
  std::vector<Sharding> layouts;
  std::vector<Node*> operands;
  for (size_t l = 0; l < shapes.size(); ++l) {
    const Sharding& result = results.is_tuple() ? results.elements().at(l) : results;
    std::vector<Digits> dims = dims_of(result, shapes[l].rank());
    for (const int64_t d : node.attrs.dimensions) dims.at(static_cast<size_t>(d)).clear();
    layouts.push_back(Sharding::tiled(result.order(), dims, result.manual_digits()));
    shapes[l] = local_shape(shapes[l], layouts[l]);
  }
  // Of several operands each has a result; an all-to-all of several has them all split alike.
  for (size_t i = 0; i < node.operands().size(); ++i)
    operands.push_back(
        spmd.reshard(node.operands()[i], layouts.at(std::min(i, shapes.size() - 1))));
  std::vector<Computation*> called;
  for (const Computation* computation : node.called)
    called.push_back(spmd.local_computation(*computation));
  Node* local = spmd.emit(node.opcode(), node.shape.is_tuple ? Shape::tuple(shapes) : shapes.at(0),
                          std::move(operands), node.attrs, std::move(called));
  return {local, node.shape.is_tuple ? Sharding::tuple(layouts) : layouts.at(0)};
}

// Every leaf of the value has manual digits.
bool is_in_region(const Sharding& s) {
  if (!s.is_tuple()) return has_manual_digits(s);
  return !s.elements().empty() &&
         std::all_of(s.elements().begin(), s.elements().end(), has_manual_digits);
}

}  // namespace

Partitioned enter_region(PartitionContext& spmd, Partitioned value, const Shape& global,
                         const Sharding& to) {
  const Sharding& from = value.sharding;
  if (to.is_manual()) {  // the region reads the whole of what it did not get by a conversion
    if (!from.is_manual()) value.local = spmd.reshard(value, global, Sharding::replicated());
    return {value.local, to};
  }
  if (from.is_manual()) {
    if (!to.is_replicated())
      user_error("partition: a manual value of {} is read as {}; leave the manual region first",
                 to_string(global), to_string(to));
    return {value.local, to};
  }
  if (from.manual_digits() == to.manual_digits()) return value;
  if (to.manual_digits().empty()) return {value.local, without_manual(from)};
  std::vector<Digits> dims = dims_of(from, global.rank());
  bool split = from.order() && from.order() != to.order();
  for (const Digits& dim : dims) split = split || !disjoint(dim, to.manual_digits());
  if (split || !from.unreduced().empty()) {
    value.local = spmd.reshard(value, global, Sharding::replicated());
    value.sharding = Sharding::replicated();
  }
  return {value.local, with_manual(value.sharding, to.order(), to.manual_digits())};
}

Node* move_in_region(PartitionContext& spmd, const Partitioned& value, const Shape& global,
                     const Sharding& to) {
  const Sharding& from = value.sharding;
  const int64_t count = from.order()->count;
  bool same = to.order()->count == count;
  for (int64_t rank = 0; rank < count && same; ++rank) {
    const int64_t there = to.order()->rank(from.order()->device(rank));
    same = there >= 0 &&
           tile_index(from.manual_digits(), rank) == tile_index(to.manual_digits(), there);
  }
  if (!same)
    user_error("partition: {} and {} differ in their manual devices; leave the manual region first",
               to_string(from), to_string(to));
  // What the parts of the region have, side by side along a dim of their own.
  const auto beside = [&](const Sharding& s) {
    std::vector<Digits> dims = dims_of(s, global.rank());
    dims.insert(dims.begin(), s.manual_digits());
    return Sharding::tiled(s.order(), std::move(dims), {}, s.unreduced());
  };
  const auto with_one = [](Dims dims, int64_t parts) {
    dims.insert(dims.begin(), parts);
    return dims;
  };
  const Shape whole(global.dtype, with_one(global.dims, tile_count(from.manual_digits())));
  Node* local = hlo::reshape(value.local, with_one(value.local->dims(), 1));
  local = spmd.reshard({local, beside(from)}, whole, beside(to));
  return hlo::reshape(local, local_shape(global, to).dims);
}

std::optional<Partitioned> partition_manual(PartitionContext& spmd, Node& node) {
  if (is_custom_call(node, "SPMDFullToShardShape")) return start_region(spmd, node);
  if (is_custom_call(node, "SPMDShardToFullShape")) return end_region(spmd, node);
  if (is_structural(node)) return std::nullopt;
  const Sharding& s = spmd.sharding(node);
  if (is_manual_value(s)) return repeat(spmd, node);
  if (!is_in_region(s)) return std::nullopt;
  if (node.is(Opcode::partition_id))
    return Partitioned{spmd.emit(node.opcode(), node.shape, {}), s};
  if (node.op().has(kCollective)) return collective_in_region(spmd, node);
  return std::nullopt;
}

}  // namespace gspmd
