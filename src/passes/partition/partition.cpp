#include "gspmd/passes/partition/partition.h"

#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ops/control/control.h"
#include "passes/partition/agree_layouts.h"
#include "passes/partition/manual.h"
#include "passes/partition/poison_absent.h"
#include "passes/partition/some_devices.h"
#include "passes/partition/spmd_partitioner.h"

namespace gspmd {
namespace {

std::string place(const Node& node) {
  const std::string source = source_line(node.metadata);
  return source.empty() ? node.name() : fmt::format("{} ({})", node.name(), source);
}

void refuse_transfer(const Node& node) {
  if (node.op().has(kSideEffect) && !node.op().evaluate)
    user_error(
        "{}: what a program sends and receives while it runs is not partitioned: {}; make it a "
        "parameter or a result",
        opcode_name(node.opcode()), place(node));
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

SpmdPartitioner::SpmdPartitioner(const Module& global, const PartitionOptions& options,
                                 std::unordered_set<int64_t> open)
    : global_(global),
      num_devices_(options.num_devices),
      poisons_(options.poison_absent),
      open_(std::move(open)) {
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

void SpmdPartitioner::check_placement(const Node& node, const Shape& shape,
                                      const Sharding& given) const {
  if (given.is_manual()) return;
  const bool maximal = given.kind() == ShardingKind::maximal;
  if ((given.is_tiled() && given.order()) || maximal) {
    const int64_t largest = maximal ? given.device() : given.order()->last();
    if (largest >= num_devices_)
      user_error(
          place_of(node),
          "partition: {} is sharded {} over device {}, the program has {} devices; partition for "
          "at least {}",
          place(node), to_string(given), largest, num_devices_, static_cast<uint64_t>(largest) + 1);
    // What the others would read has no meaning, and no conversion says what it is to be.
    if (has_manual_digits(given) && given.order()->count < num_devices_)
      user_error(place_of(node),
                 "partition: {} is sharded {}, manual on {} of {} devices; manual subgroups are "
                 "partitioned for all devices: give a sharding over {}, or partition for {}",
                 place(node), to_string(given), given.order()->count, num_devices_, num_devices_,
                 given.order()->count);
  }
  if (given.rank() > shape.rank())
    user_error(place_of(node), "partition: {} of {} has a sharding of rank {}: {}", place(node),
               to_string(shape), given.rank(), to_string(given));
}

std::optional<Sharding>& SpmdPartitioner::placement(const Node& node) {
  const auto id = static_cast<size_t>(node.id());
  if (id >= shardings_.size()) shardings_.resize(id + 1);
  return shardings_[id];
}

// What the completed module says, without partial sums.
const Sharding& SpmdPartitioner::placed(const Node& node) {
  std::optional<Sharding>& known = placement(node);
  if (known) return *known;
  const auto usual = [&](const Shape& shape, const Sharding& given) {
    check_placement(node, shape, given);
    if (given.kind() == ShardingKind::unknown) return Sharding::replicated();  // as if absent
    return given.is_tiled() && !given.unreduced().empty() ? given.with_unreduced({}) : given;
  };
  Sharding result;
  if (node.shape.is_tuple) {
    std::vector<Sharding> leaves = leaf_shardings(node.shape, node.sharding);
    const std::vector<Shape> shapes = leaf_shapes(node.shape);
    for (size_t i = 0; i < leaves.size(); ++i) leaves[i] = usual(shapes[i], leaves[i]);
    result = Sharding::tuple(std::move(leaves));
  } else if (node.sharding) {
    if (node.sharding->is_tuple())
      user_error("partition: {} is an array with a tuple sharding {}", place(node),
                 to_string(*node.sharding));
    result = usual(node.shape, *node.sharding);
  }
  return known.emplace(std::move(result));
}

const Sharding& SpmdPartitioner::sharding(const Node& node) {
  const Sharding& completed = placed(node);
  if (!widens_layouts_ || !is_partial(completed, num_devices_)) return completed;
  const auto known = lifted_.find(node.id());
  if (known != lifted_.end()) return known->second;
  return lifted_.emplace(node.id(), on_all_devices(completed, num_devices_)).first->second;
}

PartitionResult SpmdPartitioner::run() {
  const Computation& entry = *global_.entry();
  Computation* local = result_.module->add_computation(entry.name());
  result_.module->set_entry(local);
  frame_ = std::make_unique<Frame>();
  frame_->local = local;
  partition_computation(entry, *local);
  at_node(*entry.root(), [&] { finish_root(entry, sharding(*entry.root())); });
  if (poisons_) {
    keep_layouts();
    poison_absent(*result_.module, layouts_, num_devices_);
  }
  result_.module->remove_unreachable();
  result_.module->sort_computations();
  result_.module->remove_unfit_aliases();  // the two ends may be split differently
  return std::move(result_);
}

void SpmdPartitioner::lay_out(const Node& node, const Sharding& layout) {
  placement(node) = layout;
  lifted_.erase(node.id());
}

void SpmdPartitioner::partition_computation(const Computation& global, Computation&) {
  frame_->values.reserve(global.nodes().size());
  if (!open_.empty()) agree_layouts(*this, global);
  for (Node* parameter : global.parameters())
    at_node(*parameter, [&] { partition_node(*parameter); });
  for (const auto& node : global.nodes())
    if (!node->is(Opcode::parameter)) at_node(*node, [&] { partition_node(*node); });
}

void SpmdPartitioner::keep_layouts() {
  std::vector<int64_t> ids;
  for (const auto& [id, entry] : frame_->values) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const int64_t id : ids) {
    const Entry& entry = frame_->values.at(id);
    layouts_.push_back({id, entry.held.local->id(), entry.held.sharding});
    for (const Layout& layout : entry.layouts)
      layouts_.push_back({id, layout.local->id(), layout.sharding});
  }
}

Computation* SpmdPartitioner::partition_called(const Computation& global, const Sharding& parameter,
                                               const Sharding& result) {
  const auto give = [&](const Node& node, const Sharding& s) {
    placement(node) = s;
    lifted_.erase(node.id());
  };
  give(*global.parameters().at(0), parameter);
  if (!global.root()->is(Opcode::parameter))  // else it keeps the layout in which it comes in
    give(*global.root(), result);
  std::unique_ptr<Frame> caller = std::move(frame_);
  const Node* reader = reader_;
  frame_ = std::make_unique<Frame>();
  frame_->local = result_.module->add_computation(global.name());
  partition_computation(global, *frame_->local);
  at_node(*global.root(), [&] { finish_root(global, result); });
  if (poisons_) keep_layouts();
  Computation* done = frame_->local;
  frame_ = std::move(caller);
  reader_ = reader;
  return done;
}

void SpmdPartitioner::partition_node(Node& node) {
  // Before its sharding is read: that of an outfeed is of what goes out.
  if (!node.sharding || !node.sharding->is_manual()) refuse_transfer(node);
  reader_ = &node;
  Metadata metadata = node.metadata;
  if (metadata.op_name.empty()) metadata.op_name = node.name();
  metadata.cause = metadata.moved = node.name();
  const EmissionScope scope(std::move(metadata), node.backward);
  Entry entry;
  // What does not know of values on some of the devices sees them on all.
  const bool around = widens_layouts_;
  const auto given = [&](const Node& n) -> const Sharding& { return placed(n); };
  widens_layouts_ = !sees_placement(node, given, num_devices_);
  entry.held = partition_op(node);
  widens_layouts_ = around;
  // Readers see the completed layout; a pending sum waits for its first reader.
  if (!node.shape.is_tuple && entry.held.sharding.unreduced().empty()) {
    const Partitioned made = entry.held;
    if (is_only_cut(node, made.sharding)) {
      placement(node) = made.sharding;
      lifted_.erase(node.id());
    }
    entry.held = settle(node, made);
    // A reader in the layout of the op's own making gets it as it was.
    if (made.local != entry.held.local)
      entry.layouts.push_back({made.sharding, made.local, node.backward});
  }
  if (node.is(Opcode::get_tuple_element) && incomplete_.contains(node.operand(0)->id()))
    leaves_elements_out(node);
  if (!incomplete_.contains(node.id()))
    result_.values.push_back({node.id(), entry.held.local->id(), entry.held.sharding});
  frame_->values[node.id()] = std::move(entry);
}

Partitioned SpmdPartitioner::partition_op(Node& node) {
  if (node.is(Opcode::parameter)) return make_parameter(node);
  if (auto manual = partition_manual(*this, node)) return std::move(*manual);
  if (auto alone = partition_where_placed(*this, node)) return std::move(*alone);
  refuse_transfer(node);
  if (node.op().partition)
    if (auto by_rule = node.op().partition(*this, node)) return std::move(*by_rule);
  if (node.op().factors) return partition_by_factors(*this, node);
  user_error("{}: not supported by the partitioner: {}", opcode_name(node.opcode()), place(node));
}
Partitioned SpmdPartitioner::make_parameter(Node& node) {
  Attributes attrs;
  attrs.index = node.attrs.index;
  const Sharding held = sharding(node);  // refuses what cannot be partitioned
  if (&node.parent() == global_.entry())
    for (const Sharding& leaf : leaf_shardings(node.shape, node.sharding))
      if (!leaf.unreduced().empty())
        user_error(
            "partition: parameter {} is unreduced ({}); reduce it before it enters the program",
            place(node), to_string(leaf));
  Node* parameter =
      local().append(Opcode::parameter, local_shape(node.shape, held), {}, attrs, node.name());
  parameter->metadata = node.metadata;
  return {parameter, held};
}

void SpmdPartitioner::finish_root(const Computation& global, const Sharding& wanted) {
  Node* root = global.root();
  reader_ = root;
  Metadata metadata = root->metadata;
  metadata.cause = metadata.moved = root->name();
  const EmissionScope scope(std::move(metadata), root->backward);
  if (&global == global_.entry())
    for (const Sharding& leaf : leaf_shardings(root->shape, root->sharding))
      if (leaf.is_tiled() && !leaf.unreduced().empty())
        user_error("partition: result {} is unreduced ({}); reduce it before it leaves the program",
                   place(*root), to_string(leaf));
  const auto finish = [&](Node* value, const Sharding& to) {
    if (!value->shape.is_tuple) return reshard(value, to);
    return tuple_in_layout(*this, held(value), value->shape, to);
  };
  if (!root->is(Opcode::tuple)) {
    local().set_root(finish(root, wanted));
    return;
  }
  std::vector<Node*> elements;
  int64_t leaf = 0;
  for (Node* operand : root->operands())
    elements.push_back(finish(operand, next_element_sharding(wanted, operand->shape, leaf)));
  local().set_root(hlo::tuple(local(), std::move(elements)));
}

PartitionResult partition(const Module& module, const PartitionOptions& options,
                          std::unordered_set<int64_t> open) {
  if (!module.entry() || !module.entry()->root())
    user_error("partition: module {} has no entry computation", module.name);
  return SpmdPartitioner(module, options, std::move(open)).run();
}

PartitionResult partition(const Module& module, const PartitionOptions& options) {
  return partition(module, options, {});
}

}  // namespace gspmd
