#include "gspmd/passes/partition.h"

#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/control_partition.h"
#include "passes/manual.h"
#include "passes/partition_special.h"
#include "passes/spmd_partitioner.h"

namespace gspmd {
namespace {

bool covers(const Sharding& s, int64_t num_devices) {
  return s.is_replicated() || (s.is_tiled() && s.order() && s.order()->count == num_devices);
}

bool on_some_devices(const Sharding& s, int64_t num_devices) {
  return (s.is_tiled() || s.kind() == ShardingKind::maximal) && !covers(s, num_devices);
}

std::string place(const Node& node) {
  if (node.metadata.source_file.empty()) return node.name();
  return fmt::format("{} ({}:{})", node.name(), node.metadata.source_file,
                     node.metadata.source_line);
}

// Leaf shardings of a tuple value; one sharding stands for all leaves.
std::vector<Sharding> leaf_shardings(const Shape& shape, const std::optional<Sharding>& s) {
  const size_t count = static_cast<size_t>(leaf_count(shape));
  if (!s) return std::vector<Sharding>(count);
  if (!s->is_tuple()) return std::vector<Sharding>(count, *s);
  if (s->elements().size() != count)
    user_error("partition: a tuple of {} leaves has a sharding of {} elements", count,
               s->elements().size());
  return s->elements();
}

}  // namespace

SpmdPartitioner::SpmdPartitioner(const Module& global, const PartitionOptions& options)
    : global_(global), num_devices_(options.num_devices) {
  if (num_devices_ < 1) user_error("partition: {} devices; give at least 1", num_devices_);
  if (global.num_replicas > 1)
    user_error("partition: num_replicas={} is not supported; use partitions", global.num_replicas);
  result_.module = std::make_unique<Module>(global.name);
  result_.module->num_partitions = num_devices_;
  result_.module->aliases = global.aliases;
  result_.module->frontend_attributes = global.frontend_attributes;
  result_.module->frontend_attributes.erase("gspmd.open_parameters");
  result_.module->frontend_attributes.erase("gspmd.open_outputs");
}

// What the partitioner works with: shardings over all devices. Values on some of the devices only
// are computed on all of them, and reported.
Sharding SpmdPartitioner::normalized(const Node& node, const Shape& shape, const Sharding& given) {
  const bool entry_side = node.is(Opcode::parameter) && &node.parent() == global_.entry();
  if (entry_side && (given.is_manual() || has_manual_digits(given)))
    user_error(
        "partition: parameter {} has a manual sharding {}; let it enter whole and start the manual "
        "region with SPMDFullToShardShape",
        place(node), to_string(given));
  if (given.is_manual()) return given;
  const bool maximal = given.kind() == ShardingKind::maximal;
  if ((given.is_tiled() && given.order()) || maximal) {
    int64_t largest = maximal ? given.device() : given.order()->count - 1;
    if (!maximal)
      for (const int64_t device : given.order()->devices) largest = std::max(largest, device);
    if (largest >= num_devices_)
      user_error(
          "partition: {} is sharded {} over device {}, the program has {} devices; partition for "
          "at least {}",
          place(node), to_string(given), largest, num_devices_, static_cast<uint64_t>(largest) + 1);
  }
  if (given.rank() > shape.rank())
    user_error("partition: {} of {} has a sharding of rank {}: {}", place(node), to_string(shape),
               given.rank(), to_string(given));
  if (covers(given, num_devices_))
    return given.unreduced().empty() ? given : given.with_unreduced({});
  if (given.is_tiled()) report(shape, given, Sharding::replicated());
  return Sharding::replicated();
}

const Sharding& SpmdPartitioner::sharding(const Node& node) {
  const auto found = shardings_.find(node.id());
  if (found != shardings_.end()) return found->second;
  Sharding result;
  if (node.shape.is_tuple) {
    std::vector<Sharding> leaves = leaf_shardings(node.shape, node.sharding);
    const std::vector<Shape> shapes = leaf_shapes(node.shape);
    for (size_t i = 0; i < leaves.size(); ++i) leaves[i] = normalized(node, shapes[i], leaves[i]);
    result = Sharding::tuple(std::move(leaves));
  } else if (node.sharding) {
    if (node.sharding->is_tuple())
      user_error("partition: {} is an array with a tuple sharding {}", place(node),
                 to_string(*node.sharding));
    result = normalized(node, node.shape, *node.sharding);
  }
  return shardings_.emplace(node.id(), std::move(result)).first->second;
}

PartitionResult SpmdPartitioner::run() {
  const Computation& entry = *global_.entry();
  Computation* local = result_.module->add_computation(entry.name());
  result_.module->set_entry(local);
  frame_ = std::make_unique<Frame>();
  frame_->local = local;
  partition_computation(entry, *local);
  finish_root(entry, sharding(*entry.root()));
  result_.module->remove_unreachable();
  result_.module->sort_computations();
  result_.module->remove_unfit_aliases();  // the two ends may be split differently
  return std::move(result_);
}

void SpmdPartitioner::partition_computation(const Computation& global, Computation&) {
  for (Node* parameter : global.parameters()) partition_node(*parameter);
  for (const auto& node : global.nodes())
    if (!node->is(Opcode::parameter)) partition_node(*node);
}

Computation* SpmdPartitioner::partition_called(const Computation& global, const Sharding& parameter,
                                               const Sharding& result) {
  shardings_.insert_or_assign(global.parameters().at(0)->id(), parameter);
  if (!global.root()->is(Opcode::parameter))  // else it keeps the layout in which it comes in
    shardings_.insert_or_assign(global.root()->id(), result);
  std::unique_ptr<Frame> caller = std::move(frame_);
  const Node* reader = reader_;
  frame_ = std::make_unique<Frame>();
  frame_->local = result_.module->add_computation(global.name());
  partition_computation(global, *frame_->local);
  finish_root(global, result);
  Computation* done = frame_->local;
  frame_ = std::move(caller);
  reader_ = reader;
  return done;
}

void SpmdPartitioner::partition_node(Node& node) {
  reader_ = &node;
  Metadata metadata = node.metadata;
  if (metadata.op_name.empty()) metadata.op_name = node.name();
  metadata.cause = metadata.moved = node.name();
  const EmissionScope scope(std::move(metadata), node.backward);
  Entry entry;
  if (node.is(Opcode::parameter))
    entry.held = make_parameter(node);
  else if (auto manual = partition_manual(*this, node))
    entry.held = std::move(*manual);
  else if (node.op().has(kSideEffect) && !node.op().evaluate)
    user_error(
        "{}: what a program sends and receives while it runs is not partitioned: {}; make it a "
        "parameter or a result",
        opcode_name(node.opcode()), place(node));
  else if (auto special = partition_special(*this, node))
    entry.held = std::move(*special);
  else if (node.op().partition)
    entry.held = node.op().partition(*this, node);
  else if (node.op().factors)
    entry.held = partition_by_factors(*this, node);
  else
    user_error("{}: not supported by the partitioner: {}", opcode_name(node.opcode()), place(node));
  // Readers see the completed layout; a pending sum waits for its first reader.
  if (!node.shape.is_tuple && entry.held.sharding.unreduced().empty())
    entry.held = settle(node, entry.held);
  result_.values.push_back({node.id(), entry.held.local->id(), entry.held.sharding});
  frame_->values[node.id()] = std::move(entry);
}

Partitioned SpmdPartitioner::make_parameter(Node& node) {
  const bool entry = &node.parent() == global_.entry();
  Attributes attrs;
  attrs.index = node.attrs.index;
  const Sharding held = sharding(node);  // refuses what cannot be partitioned
  std::vector<Sharding> leaves = leaf_shardings(node.shape, node.sharding);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (entry && !leaves[i].unreduced().empty())
      user_error(
          "partition: parameter {} is unreduced ({}); reduce it before it enters the program",
          place(node), to_string(leaves[i]));
    if (!entry || !on_some_devices(leaves[i], num_devices_))
      leaves[i] = held.is_tuple() ? held.elements().at(i) : held;
  }
  const Sharding given = node.shape.is_tuple ? Sharding::tuple(std::move(leaves)) : leaves[0];
  Node* parameter =
      local().append(Opcode::parameter, local_shape(node.shape, given), {}, attrs, node.name());
  parameter->metadata = node.metadata;
  return {on_all_devices(parameter, node.shape, given), held};
}

// What the signature puts on some of the devices only, on all of them.
Node* SpmdPartitioner::on_all_devices(Node* value, const Shape& shape, const Sharding& given) {
  if (!shape.is_tuple)
    return on_some_devices(given, num_devices_) ? from_partial_devices(value, shape, given) : value;
  const auto& leaves = given.elements();
  if (std::none_of(leaves.begin(), leaves.end(),
                   [&](const Sharding& leaf) { return on_some_devices(leaf, num_devices_); }))
    return value;
  std::vector<Node*> elements;
  for (int64_t i = 0; i < std::ssize(shape.elements); ++i)
    elements.push_back(on_all_devices(hlo::get_tuple_element(value, i),
                                      shape.elements[static_cast<size_t>(i)],
                                      element_sharding(given, shape, i)));
  return hlo::tuple(local(), std::move(elements));
}

// Whether this device holds a tile and is the first of its replicas, pred[].
Node* SpmdPartitioner::holds_first(const Sharding& s) {
  Computation& c = local();
  Node* id = rank_node(iota_order(num_devices_));
  const auto number = [&](int64_t x) { return hlo::scalar(c, DType::s32, double(x)); };
  if (s.kind() == ShardingKind::maximal) return hlo::compare(id, number(s.device()), Direction::eq);
  const DeviceOrder order = s.order();
  Node* rank = id;
  Node* holds = nullptr;
  if (order->is_iota()) {
    holds = hlo::compare(id, number(order->count), Direction::lt);
  } else {  // of the devices up to one after the last that is named
    const int64_t last = *std::max_element(order->devices.begin(), order->devices.end());
    const int64_t count = std::min(last + 2, num_devices_);
    std::vector<int32_t> ranks(static_cast<size_t>(count), -1);
    for (int64_t r = 0; r < order->count; ++r)
      ranks[static_cast<size_t>(order->device(r))] = static_cast<int32_t>(r);
    Node* table = hlo::constant(c, Array::of<int32_t>({count}, ranks));
    rank = hlo::reshape(hlo::dynamic_slice(table, {id}, {1}), {});
    holds = hlo::compare(rank, number(0), Direction::ge);
  }
  for (const Digit& digit : s.replicated_digits()) {
    Node* replica = hlo::binary(Opcode::divide, rank, number(digit.stride));
    replica = hlo::binary(Opcode::remainder, replica, number(digit.size));
    holds = hlo::binary(Opcode::and_, holds, hlo::compare(replica, number(0), Direction::eq));
  }
  return holds;
}

// A value held by some of the devices: each holder of a tile (the first replica) puts it into
// zeros, and a sum over all devices gives everybody the whole. Bits are summed as integers, so it
// is exact.
Node* SpmdPartitioner::from_partial_devices(Node* x, const Shape& global, const Sharding& given) {
  Computation& c = local();
  if (is_complex(global.dtype)) {  // part by part: complex numbers have no integer of their bits
    const DType part = global.dtype == DType::c64 ? DType::f32 : DType::f64;
    Node* real = emit(Opcode::real, Shape(part, x->dims()), {x});
    Node* imag = emit(Opcode::imag, Shape(part, x->dims()), {x});
    real = from_partial_devices(real, Shape(part, global.dims), given);
    imag = from_partial_devices(imag, Shape(part, global.dims), given);
    return emit(Opcode::complex, Shape(global.dtype, global.dims), {real, imag});
  }
  Node* mine = holds_first(given);
  const int64_t size = dtype_size(global.dtype);
  const DType bits = size == 1   ? DType::u8
                     : size == 2 ? DType::u16
                     : size == 4 ? DType::u32
                                 : DType::u64;
  const bool is_pred = global.dtype == DType::pred;
  const auto recast = [&](Node* v, DType to) {
    if (v->shape.dtype == to) return v;
    if (is_pred) return hlo::convert(v, to);
    return emit(Opcode::bitcast_convert, Shape(to, v->dims()), {v});
  };
  Node* v = recast(x, bits);
  v = hlo::select(hlo::broadcast(mine, v->dims(), {}), v, hlo::splat(c, v->shape, 0));
  Shape padded(bits, global.dims);
  std::vector<Node*> operands;
  for (int64_t d = 0; d < global.rank(); ++d) {
    padded.dims[static_cast<size_t>(d)] = v->dim(d) * given.tiles(d);
    operands.push_back(offset(given, global, d));
  }
  operands.insert(operands.begin(), {hlo::splat(c, padded, 0), v});
  Node* whole = emit(Opcode::dynamic_update_slice, padded, operands);
  Attributes attrs;
  attrs.replica_groups = groups_over(iota_order(num_devices_), {{num_devices_, 1}});
  attrs.channel_id = 1;
  attrs.use_global_device_ids = true;
  whole = emit(Opcode::all_reduce, padded, {whole}, attrs,
               {binary_computation(c.module(), Opcode::add, bits)});
  whole = hlo::slice(whole, Dims(global.dims.size(), 0), global.dims, Dims(global.dims.size(), 1));
  return recast(whole, global.dtype);
}

// The root of the entry keeps the signature even where the user put it on some of the devices.
Node* SpmdPartitioner::to_partial_devices(Node* whole, const Sharding& given) {
  Computation& c = local();
  const Shape global = whole->shape;
  const Shape shard = local_shape(global, given);
  std::vector<PaddingDim> padding(shard.dims.size());
  std::vector<Node*> starts;
  for (int64_t d = 0; d < global.rank(); ++d) {
    padding[static_cast<size_t>(d)].high =
        shard.dims[static_cast<size_t>(d)] * given.tiles(d) - global.dims[static_cast<size_t>(d)];
    starts.push_back(offset(given, global, d));
  }
  whole = hlo::pad(whole, hlo::scalar(c, global.dtype, 0), std::move(padding));
  return hlo::dynamic_slice(whole, std::move(starts), shard.dims);
}

// A result in the layouts wanted, or on the devices that the signature gives its leaves.
Node* SpmdPartitioner::finish_result(const Partitioned& value, const Shape& shape,
                                     const Sharding& wanted, const Sharding& given) {
  if (shape.is_tuple) {
    std::vector<Node*> elements;
    for (int64_t i = 0; i < std::ssize(shape.elements); ++i)
      elements.push_back(finish_result(
          {hlo::get_tuple_element(value.local, i), element_sharding(value.sharding, shape, i)},
          shape.elements[static_cast<size_t>(i)], element_sharding(wanted, shape, i),
          element_sharding(given, shape, i)));
    return hlo::tuple(local(), std::move(elements));
  }
  if (!given.is_tiled() || covers(given, num_devices_)) return reshard(value, shape, wanted);
  return to_partial_devices(reshard(value, shape, Sharding::replicated()), given);
}

void SpmdPartitioner::finish_root(const Computation& global, const Sharding& wanted) {
  Node* root = global.root();
  reader_ = root;
  Metadata metadata = root->metadata;
  metadata.cause = metadata.moved = root->name();
  const EmissionScope scope(std::move(metadata), root->backward);
  const bool entry = &global == global_.entry();
  std::vector<Sharding> given = leaf_shardings(root->shape, root->sharding);
  bool partial = false;
  for (const Sharding& leaf : given) {
    if (!entry || !leaf.is_tiled()) continue;
    if (!leaf.unreduced().empty())
      user_error("partition: result {} is unreduced ({}); reduce it before it leaves the program",
                 place(*root), to_string(leaf));
    partial = partial || !covers(leaf, num_devices_);
  }
  const auto finish = [&](Node* value, const Sharding& to, const Sharding& signature) {
    if (partial) return finish_result(held(value), value->shape, to, signature);
    if (!value->shape.is_tuple) return reshard(value, to);
    return tuple_in_layout(*this, held(value), value->shape, to);
  };
  if (!root->is(Opcode::tuple)) {
    local().set_root(
        finish(root, wanted, root->shape.is_tuple ? Sharding::tuple(std::move(given)) : given[0]));
    return;
  }
  const Sharding signature = Sharding::tuple(std::move(given));
  std::vector<Node*> elements;
  for (int64_t i = 0; i < std::ssize(root->operands()); ++i)
    elements.push_back(finish(root->operand(i), element_sharding(wanted, root->shape, i),
                              element_sharding(signature, root->shape, i)));
  local().set_root(hlo::tuple(local(), std::move(elements)));
}

PartitionResult partition(const Module& module, const PartitionOptions& options) {
  if (!module.entry() || !module.entry()->root())
    user_error("partition: module {} has no entry computation", module.name);
  return SpmdPartitioner(module, options).run();
}

}  // namespace gspmd
