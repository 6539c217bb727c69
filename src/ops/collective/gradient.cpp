#include "ops/collective/gradient.h"

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"
#include "ops/common/open_dims.h"
#include "ops/control/control.h"

// Each device's value counts as one of its own: what a collective gives to several devices is the
// sum of what these say of it.

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

Computation* sum_of(const Node& x) {
  return binary_computation(x.parent().module(), Opcode::add, x.shape.dtype);
}

// A collective on one array, among the devices of `like` and in its layout.
Node* exchange(Opcode opcode, Node* x, const Node& like, const Shape& shape,
               std::vector<Computation*> called = {}) {
  Attributes attrs;
  attrs.dimensions = like.attrs.dimensions;
  attrs.replica_groups = like.attrs.replica_groups;
  attrs.channel_id = like.attrs.channel_id;
  attrs.use_global_device_ids = like.attrs.use_global_device_ids;
  if (opcode == Opcode::all_reduce) attrs.dimensions.clear();
  Node* const result = emit(x->parent(), opcode, {x}, std::move(attrs), shape, std::move(called));
  if (like.sharding && !like.sharding->is_tuple()) result->sharding = like.sharding;
  return result;
}

Node* summed(Node* x, const Node& like) {
  return exchange(Opcode::all_reduce, x, like, x->shape, {sum_of(*x)});
}

Nodes result_leaves(Node& y) { return hlo::leaves(&y); }

// `gradient` of each operand that its result has a cotangent for.
template <class F>
Nodes each(Node& y, const Nodes& cotangents, F&& gradient) {
  if (cotangents.size() != y.operands().size())
    user_error("{}: \"{}\" has no gradient: it gives {} arrays of {} operands",
               opcode_name(y.opcode()), y.name(), cotangents.size(), y.operands().size());
  Nodes result;
  for (size_t i = 0; i < cotangents.size(); ++i)
    result.push_back(cotangents[i] == nullptr ? nullptr : gradient(i, cotangents[i]));
  return result;
}

void require_sum(const Node& y, std::optional<Combiner> combiner) {
  if (combiner != Combiner::sum)
    user_error("{}: \"{}\" has no gradient: its combiner {} is not a sum", opcode_name(y.opcode()),
               y.name(), y.called.at(0)->name());
}

}  // namespace

Nodes all_reduce_gradient(Node& y, const Nodes& cotangents) {
  const std::optional<Combiner> combiner = recognize_combiner(*y.called.at(0));
  if (combiner != Combiner::max && combiner != Combiner::min) require_sum(y, combiner);
  const Nodes results = result_leaves(y);
  return each(y, cotangents, [&](size_t i, Node* c) {
    Node* const sum = summed(c, y);
    if (combiner == Combiner::sum) return sum;
    // Devices that have the extremum share the cotangent equally.
    Node* const chosen =
        hlo::convert(hlo::compare(y.operands()[i], results[i], Direction::eq), c->shape.dtype);
    return hlo::divide(hlo::multiply(chosen, sum), summed(chosen, y));
  });
}

Nodes all_gather_gradient(Node& y, const Nodes& cotangents) {
  return each(y, cotangents, [&](size_t i, Node* c) {
    return exchange(Opcode::reduce_scatter, c, y, y.operands()[i]->shape, {sum_of(*c)});
  });
}

Nodes reduce_scatter_gradient(Node& y, const Nodes& cotangents) {
  require_sum(y, recognize_combiner(*y.called.at(0)));
  return each(y, cotangents, [&](size_t i, Node* c) {
    return exchange(Opcode::all_gather, c, y, y.operands()[i]->shape);
  });
}

// What one device sent to another comes back.
Nodes all_to_all_gradient(Node& y, const Nodes& cotangents) {
  if (!y.shape.is_tuple)
    return each(y, cotangents, [&](size_t i, Node* c) {
      return exchange(Opcode::all_to_all, c, y, y.operands()[i]->shape);
    });
  Nodes all;
  for (size_t i = 0; i < cotangents.size(); ++i)
    all.push_back(cotangents[i] != nullptr ? cotangents[i] : zeros_like(*y.operands()[i]));
  Node* const back = emit(y.parent(), Opcode::all_to_all, std::move(all), y.attrs, y.shape);
  back->sharding = y.sharding;
  return hlo::leaves(back);
}

Nodes collective_permute_gradient(Node& y, const Nodes& cotangents) {
  Permutation back = *y.attrs.permutation;
  if (back.rule) {  // a rule does not say who sends to a tile
    back = Permutation{materialize(back)};
  } else if (back.targets != nullptr) {
    std::swap(back.order, back.targets);
  }
  if (!back.pairs.empty())
    for (auto& [source, target] : back.pairs.edit()) std::swap(source, target);
  if (back.tiles)
    for (auto& [source, target] : back.tiles->edit()) std::swap(source, target);
  if (back.shift == 0) std::swap(back.from, back.to);
  back.shift = -back.shift;
  return each(y, cotangents, [&](size_t i, Node* c) {
    Attributes attrs;
    attrs.channel_id = y.attrs.channel_id;
    attrs.permutation = back;
    Node* const result =
        emit(y.parent(), Opcode::collective_permute, {c}, std::move(attrs), y.operands()[i]->shape);
    if (y.sharding && !y.sharding->is_tuple()) result->sharding = y.sharding;
    return result;
  });
}

// The first of each group gets what all say of its value.
Nodes collective_broadcast_gradient(Node& y, const Nodes& cotangents) {
  Computation& c = y.parent();
  int64_t most = 0;
  const auto groups = materialize(*y.attrs.replica_groups, c.module().num_partitions);
  for (const std::vector<int64_t>& group : groups)
    for (const int64_t device : group) most = std::max(most, device);
  // One more than there are devices: a start outside is moved to the last one.
  Array sources(DType::pred, {most + 2});
  for (const std::vector<int64_t>& group : groups)
    if (!group.empty()) sources.set(group[0], 1);
  return each(y, cotangents, [&](size_t, Node* cotangent) {
    Node* const device = emit(c, Opcode::partition_id, {}, {}, Shape(DType::u32, {}));
    Node* const mine =
        hlo::reshape(hlo::dynamic_slice(hlo::constant(c, sources), {device}, {1}), {});
    Node* const sum = summed(cotangent, y);
    Node* const is_source = sum->rank() == 0 ? mine : hlo::broadcast(mine, sum->dims(), {});
    return hlo::select(is_source, sum, zeros_like(*sum));
  });
}

namespace {

// The manual axes along which the devices of a region hold the same part.
struct SharedPart {
  ReplicaGroups groups;
  int64_t size = 1;  // of a group; 0: all devices, however many these are
};

SharedPart shared_part(const Node& call, const Sharding& outside, const Sharding& inside) {
  SharedPart shared;
  DeviceOrder const order = outside.order() != nullptr ? outside.order() : inside.order();
  if (order == nullptr) {
    if (inside.is_manual()) shared.size = 0;
    return shared;
  }
  const Digits manual = inside.is_manual() ? Digits{{order->count, 1}} : inside.manual_digits();
  Digits split;
  for (int64_t d = 0; d < outside.rank(); ++d)
    split.insert(split.end(), outside.dim(d).begin(), outside.dim(d).end());
  const std::optional<Digits> rest = difference(manual, split);
  if (!rest)
    user_error("custom-call: \"{}\" ({}) has no gradient: {} and {} cut devices in different ways",
               call.name(), *call.attrs.custom_call_target, to_string(outside), to_string(inside));
  shared.size = tile_count(*rest);
  if (shared.size > 1) shared.groups = groups_over(order, *rest);
  return shared;
}

Node* summed_over(Node* x, const SharedPart& shared, const Sharding& inside) {
  Attributes attrs;
  attrs.replica_groups = shared.groups;
  attrs.channel_id = 1;
  attrs.use_global_device_ids = true;
  Node* const sum =
      emit(x->parent(), Opcode::all_reduce, {x}, std::move(attrs), x->shape, {sum_of(*x)});
  if (x->rank() > 0 || inside.is_manual()) sum->sharding = inside;
  return sum;
}

// The two nodes at a border with the open dims of `like`: the annotation says them in its layout,
// and what begins or ends the region in its attributes only.
Node* border(Node* x, const char* target, const Node& like, const Sharding& sharding,
             const Shape& shape) {
  Attributes attrs;
  attrs.custom_call_target = target;
  attrs.other = like.attrs.other;
  Node* const result = emit(x->parent(), Opcode::custom_call, {x}, std::move(attrs), shape);
  const bool annotates = is_custom_call(*result, "Sharding");
  result->sharding = sharding.with_open(annotates ? unspecified_dims(like) : std::vector<bool>());
  return result;
}

}  // namespace

bool is_region_border(const Node& node) {
  return is_custom_call(node, "SPMDFullToShardShape") ||
         is_custom_call(node, "SPMDShardToFullShape");
}

// Into a region: what all devices say of the part that they share. Out of one: each of those has
// its share of what is said.
Node* region_gradient(Node& call, Node* cotangent) {
  Node* const x = call.operand(0);
  if (!call.sharding || !x->sharding)
    user_error("custom-call: \"{}\" ({}) has no gradient: it needs shardings on both sides",
               call.name(), *call.attrs.custom_call_target);
  if (is_custom_call(call, "SPMDFullToShardShape")) {
    const SharedPart shared = shared_part(call, *x->sharding, *call.sharding);
    Node* const sum = shared.size == 1 ? cotangent : summed_over(cotangent, shared, *call.sharding);
    return border(border(sum, "Sharding", call, *call.sharding, sum->shape), "SPMDShardToFullShape",
                  call, *x->sharding, x->shape);
  }
  const SharedPart shared = shared_part(call, *call.sharding, *x->sharding);
  Node* const part = border(border(cotangent, "Sharding", call, *call.sharding, cotangent->shape),
                            "SPMDFullToShardShape", call, *x->sharding, x->shape);
  if (shared.size == 1) return part;
  Node* const one = hlo::splat(part->parent(), part->shape, 1);
  return hlo::divide(part, shared.size > 1 ? hlo::splat(part->parent(), part->shape,
                                                        static_cast<double>(shared.size))
                                           : summed_over(one, shared, *x->sharding));
}

}  // namespace gspmd
