#include "gspmd/passes/partition.h"

#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "passes/spmd_partitioner.h"

namespace gspmd {
namespace {

bool covers(const Sharding& s, int64_t num_devices) {
  return s.is_replicated() || (s.is_tiled() && s.order() && s.order()->count == num_devices);
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

// 1 for the devices that hold a tile and are the first of its replicas, by device id.
std::vector<int32_t> first_holders(const Sharding& s, int64_t num_devices) {
  std::vector<int32_t> holds(static_cast<size_t>(num_devices), 0);
  if (s.kind() == ShardingKind::maximal) {
    holds.at(static_cast<size_t>(s.device())) = 1;
    return holds;
  }
  for (int64_t r = 0; r < s.order()->count; ++r) {
    bool first = true;
    for (const Digit& digit : s.replicated_digits())
      first = first && (r / digit.stride) % digit.size == 0;
    holds.at(static_cast<size_t>(s.order()->device(r))) = first;
  }
  return holds;
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
  if (given.is_manual() || !given.manual_digits().empty())
    user_error("partition: {} has a manual sharding {}; manual regions are not supported",
               place(node), to_string(given));
  const bool maximal = given.kind() == ShardingKind::maximal;
  if ((given.is_tiled() && given.order()) || maximal) {
    int64_t largest = maximal ? given.device() : given.order()->count - 1;
    if (!maximal)
      for (const int64_t device : given.order()->devices) largest = std::max(largest, device);
    if (largest >= num_devices_)
      user_error(
          "partition: {} is sharded {} over device {}, the program has {} devices; raise "
          "--num-devices",
          place(node), to_string(given), largest, num_devices_);
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
  finish_root(entry);
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
  shardings_.insert_or_assign(global.root()->id(), result);
  std::unique_ptr<Frame> caller = std::move(frame_);
  const Node* reader = reader_;
  frame_ = std::make_unique<Frame>();
  frame_->local = result_.module->add_computation(global.name());
  partition_computation(global, *frame_->local);
  finish_root(global);
  Computation* done = frame_->local;
  frame_ = std::move(caller);
  reader_ = reader;
  return done;
}

void SpmdPartitioner::partition_node(Node& node) {
  reader_ = &node;
  Metadata metadata = node.metadata;
  if (metadata.op_name.empty()) metadata.op_name = node.name();
  const EmissionScope scope(std::move(metadata), node.backward);
  Entry entry;
  if (node.is(Opcode::parameter))
    entry.held = make_parameter(node);
  else if (node.op().partition)
    entry.held = node.op().partition(*this, node);
  else if (node.op().factors)
    entry.held = partition_by_factors(*this, node);
  else
    user_error("{}: not supported by the partitioner: {}", opcode_name(node.opcode()), place(node));
  // Readers see the completed layout; a pending sum waits for its first reader.
  if (!node.shape.is_tuple && entry.held.sharding.unreduced().empty())
    entry.held = settle(node, entry.held);
  frame_->values[node.id()] = std::move(entry);
}

Partitioned SpmdPartitioner::make_parameter(Node& node) {
  const bool entry = &node.parent() == global_.entry();
  Attributes attrs;
  attrs.index = node.attrs.index;
  if (node.shape.is_tuple) {
    for (const Sharding& leaf : leaf_shardings(node.shape, node.sharding))
      if (entry && !covers(leaf, num_devices_) && leaf.kind() != ShardingKind::unknown)
        user_error(
            "partition: a leaf of tuple parameter {} is on some devices only ({}); pass it as a "
            "parameter of its own",
            place(node), to_string(leaf));
    Shape shape = local_shape(node.shape, sharding(node));
    return {local().append(Opcode::parameter, shape, {}, attrs, node.name()), sharding(node)};
  }
  const bool partial =
      entry && node.sharding && !covers(*node.sharding, num_devices_) &&
      (node.sharding->is_tiled() || node.sharding->kind() == ShardingKind::maximal);
  (void)sharding(node);  // refuses what cannot be partitioned
  const Sharding& s = partial ? *node.sharding : sharding(node);
  if (entry && node.sharding && !node.sharding->unreduced().empty())
    user_error("partition: parameter {} is unreduced ({}); reduce it before it enters the program",
               place(node), to_string(*node.sharding));
  Node* parameter =
      local().append(Opcode::parameter, local_shape(node.shape, s), {}, attrs, node.name());
  parameter->metadata = node.metadata;
  if (partial) return from_partial_devices(parameter, node, s);
  return {parameter, s};
}

// A value held by some of the devices: each holder of a tile (the first replica) puts it into
// zeros, and a sum over all devices gives everybody the whole. Bits are summed as integers, so it
// is exact.
Partitioned SpmdPartitioner::from_partial_devices(Node* x, const Node& node,
                                                  const Sharding& given) {
  Computation& c = local();
  const Shape& global = node.shape;
  const std::vector<int32_t> table = first_holders(given, num_devices_);
  Node* here =
      hlo::reshape(hlo::dynamic_slice(hlo::constant(c, Array::of<int32_t>({num_devices_}, table)),
                                      {rank_node(iota_order(num_devices_))}, {1}),
                   {});
  Node* mine = hlo::compare(here, hlo::scalar(c, DType::s32, 1), Direction::eq);
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
  return {recast(whole, global.dtype), Sharding::replicated()};
}

// The root of the entry keeps the signature even where the user put it on some of the devices.
Node* SpmdPartitioner::to_partial_devices(Node* global, const Sharding& given) {
  Node* whole = reshard(global, Sharding::replicated());
  if (given.is_replicated()) return whole;
  Computation& c = local();
  const Shape shard = local_shape(global->shape, given);
  std::vector<PaddingDim> padding(shard.dims.size());
  std::vector<Node*> starts;
  for (int64_t d = 0; d < global->rank(); ++d) {
    padding[static_cast<size_t>(d)].high =
        shard.dims[static_cast<size_t>(d)] * given.tiles(d) - global->dim(d);
    starts.push_back(offset(given, global->shape, d));
  }
  whole = hlo::pad(whole, hlo::scalar(c, global->shape.dtype, 0), std::move(padding));
  return hlo::dynamic_slice(whole, std::move(starts), shard.dims);
}

// A tuple that one op made, its elements brought to the layouts that the results have.
Node* SpmdPartitioner::tuple_in_layout(Node& node, const Sharding& to) {
  const Partitioned value = held(&node);
  if (value.sharding == to) return value.local;
  if (leaf_count(node.shape) != static_cast<int64_t>(node.shape.elements.size()))
    user_error(
        "partition: result {} is a nested tuple {} in layouts that differ from the results'; "
        "return a flat tuple",
        place(node), to_string(node.shape));
  std::vector<Node*> elements;
  for (size_t i = 0; i < node.shape.elements.size(); ++i) {
    Node* element = hlo::get_tuple_element(value.local, static_cast<int64_t>(i));
    const Partitioned part{element, value.sharding.elements().at(i)};
    elements.push_back(reshard(part, node.shape.elements[i], to.elements().at(i)));
  }
  return hlo::tuple(local(), std::move(elements));
}

void SpmdPartitioner::finish_root(const Computation& global) {
  Node* root = global.root();
  reader_ = root;
  const EmissionScope scope(root->metadata, root->backward);
  const bool entry = &global == global_.entry();
  const auto finish = [&](Node* value, const Sharding& wanted, const Sharding* given) {
    if (entry && given && given->is_tiled() && !given->unreduced().empty())
      user_error("partition: result {} is unreduced ({}); reduce it before it leaves the program",
                 place(*value), to_string(*given));
    if (entry && given && given->is_tiled() && !covers(*given, num_devices_))
      return to_partial_devices(value, *given);
    return reshard(value, wanted);
  };
  if (!root->shape.is_tuple) {
    local().set_root(finish(root, sharding(*root), root->sharding ? &*root->sharding : nullptr));
    return;
  }
  if (leaf_count(root->shape) != static_cast<int64_t>(root->shape.elements.size()) ||
      !root->is(Opcode::tuple)) {
    local().set_root(tuple_in_layout(*root, sharding(*root)));
    return;
  }
  const std::vector<Sharding> given = leaf_shardings(root->shape, root->sharding);
  std::vector<Node*> leaves;
  for (size_t i = 0; i < root->operands().size(); ++i)
    leaves.push_back(finish(root->operands()[i], sharding(*root).elements().at(i), &given[i]));
  local().set_root(hlo::tuple(local(), std::move(leaves)));
}

PartitionResult partition(const Module& module, const PartitionOptions& options) {
  if (!module.entry() || !module.entry()->root())
    user_error("partition: module {} has no entry computation", module.name);
  return SpmdPartitioner(module, options).run();
}

}  // namespace gspmd
