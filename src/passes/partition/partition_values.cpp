#include <algorithm>
#include <numeric>
#include <utility>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "mesh/device_terms.h"
#include "moves/rematerialization.h"
#include "moves/table_reshard.h"
#include "ops/emission/emit_reshard.h"
#include "ops/emission/index.h"
#include "passes/partition/manual.h"
#include "passes/partition/spmd_partitioner.h"

namespace gspmd {
namespace {

// A broadcast of a scalar, made anew at another size rather than sliced.
Node* scalar_of_splat(Node* local) {
  if (!local->is(Opcode::broadcast) || local->operand(0)->rank() != 0) return nullptr;
  return local->operand(0);
}

}  // namespace

Node* SpmdPartitioner::emit(Opcode opcode, Shape shape, std::vector<Node*> operands,
                            Attributes attrs, std::vector<Computation*> called) {
  return gspmd::emit(local(), opcode, std::move(operands), std::move(attrs), std::move(shape),
                     std::move(called));
}

Computation* SpmdPartitioner::local_computation(const Computation& global) {
  Computation*& local = computations_[&global];
  if (local) return local;
  local = result_.module->add_computation(global.name());
  std::vector<Node*> arguments;
  for (const Node* parameter : global.parameters()) {
    Attributes attrs;
    attrs.index = parameter->attrs.index;
    arguments.push_back(
        local->append(Opcode::parameter, parameter->shape, {}, attrs, parameter->name()));
  }
  Computation* const made = local;
  made->set_root(inline_computation(global, *made, arguments));
  for (const auto& node : made->nodes())
    for (Computation*& called : node->called) called = local_computation(*called);
  return made;
}

Partitioned SpmdPartitioner::held(Node* global) { return frame_->values.at(global->id()).held; }

std::vector<Sharding> SpmdPartitioner::layouts_of(const Node& global) const {
  const Entry& entry = frame_->values.at(global.id());
  std::vector<Sharding> layouts;
  for (const Layout& layout : entry.layouts)
    if (layout.backward == (reader_ && reader_->backward) && layout.sharding.is_tiled() &&
        layout.sharding.manual_digits().empty())
      layouts.push_back(layout.sharding);
  return layouts;
}

bool SpmdPartitioner::keeps_unreduced(const Node& reader, int64_t operand) {
  const Node* value = reader.operand(operand);
  if (value->users().size() != 1) return false;
  const auto& operands = reader.operands();
  if (std::count(operands.begin(), operands.end(), value) != 1) return false;
  const Partitioned& h = frame_->values.at(value->id()).held;
  if (!h.sharding.is_tiled() || h.sharding.unreduced().empty()) return false;
  // Partial sums stay in their device order; another order is reached by whole values only.
  const Sharding& completed = sharding(reader);
  return !completed.order() || completed.order() == h.sharding.order();
}

// The value as its readers see it: sums over devices done, in the completed layout.
Partitioned SpmdPartitioner::settle(const Node& node, const Partitioned& value) {
  const Sharding& completed = placed(node);
  moved_ = &node;
  if (value.sharding == completed || equivalent(value.sharding, completed))
    return {value.local, completed};  // as most are: no cause is told
  const bool sums = !value.sharding.unreduced().empty();
  const EmissionScope scope(cause_of(node, sums), (reader_ ? reader_ : &node)->backward);
  return {reshard(value, node.shape, completed), completed};
}

// The op whose partial sums a value that is held unreduced goes back to.
const Node& SpmdPartitioner::maker_of_sum(const Node& value) const {
  const Node* node = &value;
  for (bool further = true; further;) {
    further = false;
    for (const Node* operand : node->operands()) {
      const auto found = frame_->values.find(operand->id());
      if (found == frame_->values.end() || found->second.held.sharding.unreduced().empty())
        continue;
      node = operand;
      further = true;
      break;
    }
  }
  return *node;
}

// Why a value is moved: for the node being partitioned, or because it was left as partial sums. A
// reader without a line of the user's, such as the tuple of results, shows the line of the value
// instead.
Metadata SpmdPartitioner::cause_of(const Node& moved, bool sums) const {
  const Node& reader = reader_ ? *reader_ : moved;
  const bool shows = !reader.metadata.source_file.empty() || moved.metadata.source_file.empty();
  Metadata metadata = shows ? reader.metadata : moved.metadata;
  if (metadata.op_name.empty()) metadata.op_name = shows ? reader.name() : moved.name();
  metadata.cause = sums ? maker_of_sum(moved).name() : reader.name();
  metadata.moved = moved.name();
  return metadata;
}

// Constants and counters are made in every layout that is asked for: they are never sent.
Node* SpmdPartitioner::recompute_in(Node& global, const Sharding& to) {
  if (!global.op().has(kConstantLike) || !global.op().partition || global.rank() == 0 ||
      global.shape.is_tuple || to.is_manual() || (to.is_tiled() && !to.unreduced().empty()) ||
      placed(global).is_manual())
    return nullptr;
  const Sharding usual = placed(global);
  const bool around = std::exchange(widens_layouts_, false);
  placement(global) = to;
  const Partitioned made = global.op().partition(*this, global).value();
  placement(global) = usual;
  widens_layouts_ = around;
  return reshard(made, global.shape, to);
}

Node* SpmdPartitioner::reshard(Node* global, const Sharding& to) {
  Entry& entry = frame_->values.at(global->id());
  const bool backward = reader_ && reader_->backward;
  if (to == entry.held.sharding || equivalent(to, entry.held.sharding)) return entry.held.local;
  for (const Layout& layout : entry.layouts)
    if (layout.backward == backward && equivalent(layout.sharding, to)) return layout.local;
  if (Node* made = recompute_in(*global, to)) {
    entry.layouts.push_back({to, made, backward});
    return made;
  }
  if (!entry.held.sharding.unreduced().empty() && to.unreduced().empty() &&
      global->users().size() > 1) {
    entry.held = settle(*global, entry.held);
    return reshard(global, to);
  }
  const bool shows_reader =
      reader_ && (!reader_->metadata.source_file.empty() || global->metadata.source_file.empty());
  const bool sums = !entry.held.sharding.unreduced().empty() && to.unreduced().empty();
  const EmissionScope scope(cause_of(*global, sums),
                            backward || (!shows_reader && global->backward));
  moved_ = global;
  Node* local = by_cheapest_way(*global, to, backward);
  if (!local) local = reshard(entry.held, global->shape, to);
  entry.layouts.push_back({to, local, backward});
  return local;
}

Node* SpmdPartitioner::reshard_table(Node* global, const Sharding& to) {
  const bool around = std::exchange(moves_table_, true);
  Node* local = reshard(global, to);
  moves_table_ = around;
  return local;
}

Node* SpmdPartitioner::reshard(const Partitioned& value, const Shape& global, const Sharding& to) {
  if (value.sharding == to || equivalent(value.sharding, to)) return value.local;
  if (has_manual_digits(value.sharding) && has_manual_digits(to) &&
      (value.sharding.order() != to.order() ||
       value.sharding.manual_digits() != to.manual_digits()))
    return move_in_region(*this, value, global, to);
  if (value.sharding.is_manual() || to.is_manual() ||
      value.sharding.manual_digits() != to.manual_digits()) {
    const Partitioned entered = enter_region(*this, value, global, to);
    return reshard(entered, global, to);
  }
  if (Node* scalar = scalar_of_splat(value.local); scalar && value.sharding.unreduced().empty()) {
    const Shape shape = local_shape(global, to);
    return shape.dims == value.local->dims() ? value.local : hlo::broadcast(scalar, shape.dims, {});
  }
  const auto plan_way = moves_table_ ? plan_table_reshard : plan_reshard;
  const ReshardPlan plan = plan_way(global, value.sharding, to, num_devices_);
  if (plan.full_rematerialization) report(global, value.sharding, to);
  return emit_reshard(*this, value.local, global, plan);
}

void SpmdPartitioner::report(const Shape& shape, const Sharding& from, const Sharding& to) {
  FullRematerialization remat;
  remat.shape = to_string(shape);
  remat.from = to_string(from);
  remat.to = to_string(to);
  const auto name = [](const Node& node) {
    return node.metadata.op_name.empty() ? node.name() : *node.metadata.op_name;
  };
  const Node* moved = moved_ && moved_->shape == shape ? moved_ : reader_;
  if (moved) remat.tensor = name(*moved);
  if (reader_) remat.op = reader_->name();
  for (const Node* node : {reader_, moved}) {
    if (!node || !remat.source.empty()) continue;
    remat.source = source_line(node->metadata);
  }
  remat.avoid = how_to_avoid(shape, from, to, remat.tensor, remat.op, num_devices_);
  result_.full_rematerializations.push_back(std::move(remat));
}

// This device's rank in `order`: the partition id itself, or a table where the order is explicit.
Node* SpmdPartitioner::rank_node(DeviceOrder order) {
  if (!frame_->partition_id) frame_->partition_id = device_number(local());
  if (order->is_iota() && order->count == num_devices_) return frame_->partition_id;
  if (order->is_iota()) return IndexNode(frame_->partition_id) % order->count;
  if (const auto known = frame_->ranks.find(order); known != frame_->ranks.end())
    return known->second;
  // Devices beyond the last that the order names read its entry; nobody uses their values.
  std::vector<int64_t> rank_of(static_cast<size_t>(order->last()) + 1, 0);
  for (int64_t r = 0; r < order->count; ++r) rank_of.at(static_cast<size_t>(order->device(r))) = r;
  return frame_->ranks[order] = look_up(rank_of, IndexNode(frame_->partition_id));
}

Node* SpmdPartitioner::digits_index(DeviceOrder order, const Digits& digits) {
  if (Node*& known = frame_->indices[{order, digits}]) return known;
  if (digits.empty()) return frame_->indices[{order, digits}] = IndexNode(local(), 0);
  const std::optional<DeviceFunction> tile =
      order->is_iota() ? std::nullopt : tile_function(order, digits);
  Node* const index = tile ? tile_number(*tile)
                           : gspmd::digits_index(IndexNode(rank_node(order)), digits, order->count);
  return frame_->indices[{order, digits}] = index;
}

// By arithmetic on the partition id. Devices that are not in the order have some number or other.
Node* SpmdPartitioner::tile_number(const DeviceFunction& tile) {
  if (!frame_->partition_id) frame_->partition_id = device_number(local());
  const IndexNode device = IndexNode(frame_->partition_id) + -tile.least;
  Node* index = nullptr;
  std::vector<int64_t> longer;  // steps, the longest first
  for (const DeviceFunction::Term& term : tile.terms) {
    const bool divides = std::all_of(longer.begin(), longer.end(), [&](int64_t step) {
      return step % (term.step * term.size) == 0;
    });
    IndexNode part = device;
    if (!divides && term.weight != 0)
      for (const int64_t step : longer) part = part % step;
    longer.push_back(term.step);
    if (term.weight == 0) continue;
    part = part / term.step;
    if (term.step * term.size < num_devices_) part = part % term.size;
    part = part * term.weight;
    index = index ? IndexNode(index) + part : part;
  }
  return index ? IndexNode(index) + tile.base : IndexNode(local(), tile.base);
}

ReplicaGroups SpmdPartitioner::groups(DeviceOrder order, const Digits& digits) const {
  const DeviceOrder all = covering_order(order, num_devices_);
  if (!all)
    internal_error("partition: groups of {} of {} devices leave some out", order->count,
                   num_devices_);
  return groups_over(all, digits);
}

Node* SpmdPartitioner::tile_index(const Sharding& s, int64_t dim) {
  return digits_index(s.order() ? s.order() : iota_order(num_devices_), s.dim(dim));
}

Node* SpmdPartitioner::offset(const Sharding& s, const Shape& global, int64_t dim) {
  const int64_t size = ceil_div(global.dims[static_cast<size_t>(dim)], s.tiles(dim));
  Node* const shard = IndexNode(local(), size);
  return hlo::multiply(tile_index(s, dim), shard);
}

}  // namespace gspmd
