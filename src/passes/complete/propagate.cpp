#include "gspmd/passes/complete/propagate.h"

#include <algorithm>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "passes/complete/boundary_flags.h"
#include "passes/complete/propagation.h"

namespace gspmd {
namespace {

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

bool is_sharding_op(const Node& node) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
}

bool has_sharding_ops(const Computation& computation) {
  const auto& nodes = computation.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const auto& node) { return is_sharding_op(*node); });
}

bool divides(const Shape& shape, const Sharding& sharding) {
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (shape.dims[static_cast<size_t>(d)] % sharding.tiles(d) != 0) return false;
  return true;
}

// One boundary value after completion: what may not change goes back, what does not divide is
// dropped. `open(i)`: whether leaf i may have changed.
std::optional<Sharding> boundary(const Shape& shape, const std::optional<Sharding>& saved,
                                 const std::optional<Sharding>& completed,
                                 const std::function<bool(size_t)>& open,
                                 bool replicate_indivisible) {
  if (!completed) return saved;
  const std::vector<Shape> shapes = leaf_shapes(shape);
  const auto leaf_of = [&](const std::optional<Sharding>& s, size_t i) {
    if (!s) return std::optional<Sharding>();
    if (!s->is_tuple()) return s;
    return i < s->elements().size() ? std::optional<Sharding>(s->elements()[i]) : std::nullopt;
  };
  std::vector<Sharding> result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::optional<Sharding> before = leaf_of(saved, i);
    std::optional<Sharding> after = open(i) ? leaf_of(completed, i) : before;
    if (after && replicate_indivisible && after->is_tiled() && !(before && *before == *after) &&
        !divides(shapes[i], *after))
      after = Sharding::replicated();
    if (!after && !shape.is_tuple) return std::nullopt;
    result.push_back(after.value_or(Sharding::replicated()));
  }
  return shape.is_tuple ? Sharding::tuple(std::move(result)) : result.at(0);
}

// Which element of a tuple each leaf belongs to.
std::vector<size_t> elements_of_leaves(const Shape& shape) {
  std::vector<size_t> result;
  for (size_t e = 0; e < shape.elements.size(); ++e)
    result.insert(result.end(), static_cast<size_t>(leaf_count(shape.elements[e])), e);
  return result;
}

Sharding with_unknown_replicated(const Sharding& s) {
  if (s.kind() == ShardingKind::unknown) return Sharding::replicated();
  if (!s.is_tuple()) return s;
  std::vector<Sharding> leaves;
  for (const Sharding& leaf : s.elements()) leaves.push_back(with_unknown_replicated(leaf));
  return Sharding::tuple(std::move(leaves));
}

bool is_unknown(const Sharding& s) {
  if (!s.is_tuple()) return s.kind() == ShardingKind::unknown;
  return std::all_of(s.elements().begin(), s.elements().end(), is_unknown);
}

// 0 is heard first.
int64_t priority_of(const Node& node) {
  const auto found = node.frontend_attributes.find("gspmd.priority");
  if (found == node.frontend_attributes.end()) return 0;
  int64_t priority = 0;
  for (const char c : found->second) {
    if (c == '"') continue;
    if (c < '0' || c > '9' || priority > 1'000'000)
      user_error(place_of(node),
                 "propagate: gspmd.priority={} of {} is no number from 0 to 1,000,000",
                 found->second, node.name());
    priority = priority * 10 + (c - '0');
  }
  return priority;
}

bool is_barrier(const Node& node, std::string_view target) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == target &&
         node.operands().size() == 1 && node.shape == node.operand(0)->shape;
}

// Whether a shard_as annotation binds the value that it names as well: where that has no layout of
// its own that the annotation is to change, and is no parameter, whose layout comes from outside,
// nor the border of a manual region, whose layout says which part each device has there.
bool binds_value(const Node& annotation) {
  const Node& value = *annotation.operand(0);
  const Sharding& said = *annotation.sharding;
  if (said.is_tuple() || said.shard_group() == 0 || !said.shard_group_is_as()) return false;
  const bool border = value.attrs.custom_call_target.starts_with("SPMD");
  if (value.is(Opcode::parameter) || border || value.shape != annotation.shape) return false;
  return said.kind() == ShardingKind::unknown || !value.sharding;
}

// Removes these nodes, which nothing reads; other nodes that nothing (else) reads stay as the user
// wrote them.
void remove_only(Computation& computation, const std::set<const Node*>& removed) {
  Node* root = computation.root();
  std::vector<Node*> kept{root};
  std::vector<Shape> shapes{root->shape};
  for (const auto& node : computation.nodes())
    if (node.get() != root && !removed.contains(node.get()) &&
        std::all_of(node->users().begin(), node->users().end(),
                    [&](const Node* user) { return removed.contains(user); })) {
      kept.push_back(node.get());
      shapes.push_back(node->shape);
    }
  Node* all = computation.append(Opcode::tuple, Shape::tuple(std::move(shapes)), std::move(kept));
  computation.set_root(all);
  computation.remove_dead();
  computation.set_root(root);
  computation.remove_last(all);
}

}  // namespace

Propagation::Propagation(Module& module, const PropagateOptions& options)
    : module_(module), options_(options) {
  BoundaryFlags open = boundary_flags(module, options);
  options_.allow_output = std::move(open.results);
  options_.allow_parameters = std::move(open.parameters);
}

void Propagation::check_boundary_flags() const {
  const Computation& entry = *module_.entry();
  const auto check = [](const char* what, size_t flags, size_t values) {
    if (flags > 1 && flags != values)
      user_error("propagate: {} flags for {} {}; give one for all or one each", flags, values,
                 what);
  };
  check("results", options_.allow_output.size(), output_count(entry));
  check("parameters", options_.allow_parameters.size(), parameter_count(entry));
}

// A Sharding op becomes a copy of the same name that carries the user's sharding, if it has one.
// What is annotated has that layout from the start, where nothing else says otherwise; the last
// annotation of a value speaks first.
void Propagation::convert_sharding_ops() {
  for (const auto& computation : module_.computations()) {
    if (!has_sharding_ops(*computation)) continue;
    std::vector<Node*> annotations = post_order(*computation);
    std::erase_if(annotations, [](Node* n) { return !is_sharding_op(*n); });
    std::reverse(annotations.begin(), annotations.end());
    for (Node* old : annotations) {
      const std::string name = old->name();
      computation->rename(old, name + ".annotation");
      Node* copy = computation->append_as(name, Opcode::copy, old->shape, {old->operand(0)});
      copy->sharding = old->sharding;
      const std::vector<bool> open = unspecified_dims(*old);
      if (!open.empty() && copy->sharding) copy->sharding = copy->sharding->with_open(open);
      copy->metadata = old->metadata;
      copy->frontend_attributes = old->frontend_attributes;
      copy->backward = old->backward;
      computation->replace_uses(old, copy);
      restructured_ = true;
      if (!copy->sharding) continue;
      record_origins(*copy, *copy);
      Node* source = copy->operand(0);
      if (binds_value(*copy)) binding_.push_back(copy);
      const bool closed = copy->sharding->open().empty() && priority_of(*copy) == 0;
      if (closed && !source->sharding && source->shape == copy->shape) {
        source->sharding = copy->sharding->with_shard_group(0, false);
        record_origins(*source, *copy);
      }
    }
    remove_only(*computation, {annotations.begin(), annotations.end()});
    computation->sort();
  }
}

void Propagation::collect_groups() {
  std::map<const Node*, int64_t> bound;
  for (const Node* annotation : binding_)
    bound.emplace(annotation->operand(0), annotation->sharding->shard_group());
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes()) {
      const bool says =
          node->sharding && !node->sharding->is_tuple() && node->sharding->shard_group() != 0;
      const auto found = bound.find(node.get());
      if (!says && found == bound.end()) continue;
      const int64_t id = says ? node->sharding->shard_group() : found->second;
      const Node& first = groups_.contains(id) ? *groups_[id][0] : *node;
      if (first.rank() != node->rank())
        user_error(
            place_of(*node),
            "propagate: shard group {} holds {} of {} and {} of {}; its members are laid out alike "
            "and so of one rank: give one of them another group",
            id - 1, first.name(), to_string(first.shape), node->name(), to_string(node->shape));
      groups_[id].push_back(node.get());
      group_of_[node->id()] = id;
      group_is_as_[id] = !says || node->sharding->shard_group_is_as();
      if (says) node->sharding = node->sharding->with_shard_group(0, false);
    }
}

// Donated state: a parameter and the result that takes its storage are completed as one, where both
// are open.
void Propagation::group_donated() {
  const Computation& entry = *module_.entry();
  int64_t id = 0;
  for (const Alias& alias : module_.aliases) {
    const auto p = static_cast<size_t>(alias.parameter);
    if (p >= entry.parameters().size() || !alias.parameter_index.empty()) continue;
    if (!entry.root()->is(Opcode::tuple) || alias.output.size() != 1) continue;
    const auto o = static_cast<size_t>(alias.output[0]);
    if (o >= entry.root()->operands().size()) continue;
    if (!is_open_at(options_.allow_parameters, p) || !is_open_at(options_.allow_output, o))
      continue;
    Node* parameter = entry.parameters()[p];
    Node* result = entry.root()->operands()[o];
    if (parameter == result || parameter->shape.is_tuple || result->shape.is_tuple) continue;
    if (group_of_.contains(parameter->id()) || group_of_.contains(result->id())) continue;
    groups_[--id] = {parameter, result};
    group_of_[parameter->id()] = group_of_[result->id()] = id;
    group_is_as_[id] = true;
  }
}

// A loop, call or branch whose result is the program's keeps a layout of its own; a call or branch
// only where neither it nor what it returns is annotated, else the result is laid out as that says.
void Propagation::detach_root() {
  Computation& entry = *module_.entry();
  Node* value = entry.root();
  const bool loop = value->is(Opcode::while_);
  const bool call = value->is(Opcode::call) || value->is(Opcode::conditional);
  if (any(options_.allow_output) || !(loop || call)) return;
  if (call && (value->sharding || std::any_of(value->called.begin(), value->called.end(),
                                              [](const Computation* called) {
                                                return called->root()->sharding.has_value();
                                              })))
    return;
  Node* root = nullptr;
  if (!value->shape.is_tuple) {
    root = entry.append(Opcode::copy, value->shape, {value});
  } else {
    std::vector<Node*> elements;
    for (size_t i = 0; i < value->shape.elements.size(); ++i) {
      Attributes attrs;
      attrs.index = static_cast<int64_t>(i);
      elements.push_back(entry.append(Opcode::get_tuple_element, value->shape.elements[i], {value},
                                      std::move(attrs)));
    }
    root = entry.append(Opcode::tuple, value->shape, std::move(elements));
  }
  root->sharding = value->sharding;
  entry.set_root(root);
  restructured_ = true;
}

// What ends a manual region says by its sharding how shards are put together: where it is what a
// branch, a callee or the program returns, a copy of it takes the layout that others want.
void Propagation::detach_borders() {
  for (const auto& computation : module_.computations()) {
    Node* border = computation->root();
    if (!border->is(Opcode::custom_call) || !border->sharding ||
        border->attrs.custom_call_target != "SPMDShardToFullShape")
      continue;
    if (computation.get() == module_.entry() && !any(options_.allow_output)) continue;
    Node* root = computation->append(Opcode::copy, border->shape, {border});
    copy_annotations(*border, *root);
    computation->set_root(root);
    restructured_ = true;
  }
}

void Propagation::mark_given() {
  const Computation* entry = module_.entry();
  for (Computation* computation : computations_)
    for (const auto& node : computation->nodes()) {
      if (!node->sharding) continue;
      if (is_unknown(*node->sharding)) {
        node->sharding = with_unknown_replicated(*node->sharding);
        continue;
      }
      node->sharding = with_unknown_replicated(*node->sharding);
      const bool entry_parameter = node->is(Opcode::parameter) && computation == entry;
      const bool entry_root = computation == entry && node->is_root();
      if (entry_parameter && any(options_.allow_parameters)) continue;
      if (entry_root && any(options_.allow_output)) continue;
      flags(*node) |= kGiven;
    }
  if (!any(options_.allow_output)) flags(*entry->root()) |= kGiven;
}

// Annotations of a later priority stay silent, and as they are, until their turn.
void Propagation::withhold_later() {
  for (Computation* computation : computations_)
    for (const auto& node : computation->nodes()) {
      const int64_t priority = priority_of(*node);
      if (priority == 0 || !given(*node) || !node->sharding) continue;
      later_[priority].emplace_back(node.get(), *node->sharding);
      node->sharding.reset();
    }
}

bool Propagation::release_next_priority() {
  if (later_.empty()) return false;
  const auto next = later_.begin();
  for (auto& [node, sharding] : next->second) set_sharding(*node, std::move(sharding), *node);
  later_.erase(next);
  return true;
}

// All members of a shard_as group end equal: merged, or as the first that is split. In a donated
// pair what the user gave stays.
void Propagation::align_shard_as_groups() {
  for (const auto& [id, members] : groups_) {
    if (!group_is_as_[id]) continue;
    std::optional<Sharding> common, first;
    bool compatible = true;
    for (const Node* node : members) {
      if (!node->sharding || (id < 0 && given(*node))) continue;
      if (!is_barrier(*node, "ShardBarrierFrom") && (!first || first->is_replicated()))
        first = node->sharding->with_open({});
      const auto both = common ? merge(*common, *node->sharding, node->rank()) : node->sharding;
      compatible = compatible && both;
      if (both) common = both->with_open({});
    }
    for (const Node* node : members)
      if (id < 0 && given(*node) && node->sharding) common = node->sharding->with_open({});
    if (!compatible && first) common = first;
    if (!common) continue;
    for (Node* node : members) {
      if (is_barrier(*node, "ShardBarrierTo") || (id < 0 && given(*node))) continue;
      if (node->sharding && equivalent(*node->sharding, *common)) continue;
      const Node* source = members[0] == node && members.size() > 1 ? members[1] : members[0];
      set_sharding(*node, *common, *source);
    }
  }
}

// What a shard_as group gives a ShardBarrierFrom goes on to the value before it.
bool Propagation::relay_barriers() {
  bool changed = false;
  for (const auto& [id, members] : groups_)
    for (Node* node : members) {
      if (!group_is_as_[id] || !is_barrier(*node, "ShardBarrierFrom") || !node->sharding) continue;
      Node* source = node->operand(0);
      if (!given(*source) && !is_all_manual(source->sharding) && may_be_tiled(*source))
        changed |= improve(*source, *node->sharding, *node, 3, false);
    }
  return changed;
}

void Propagation::remove_barriers() {
  for (Computation* computation : computations_) {
    std::set<const Node*> removed;
    for (const auto& node : computation->nodes())
      if (is_barrier(*node, "ShardBarrierFrom") || is_barrier(*node, "ShardBarrierTo")) {
        computation->replace_uses(node.get(), node->operand(0));
        removed.insert(node.get());
      }
    if (removed.empty()) continue;
    remove_only(*computation, removed);
    restructured_ = removed_barriers_ = true;
  }
}

void Propagation::restore_boundary() {
  Computation& entry = *module_.entry();
  Node& root = *entry.root();
  const std::vector<size_t> elements = elements_of_leaves(root.shape);
  std::optional<Sharding> before = root.sharding;
  root.sharding = boundary(
      root.shape, saved_root_, root.sharding,
      [&](size_t i) {
        return is_open_at(options_.allow_output, root.shape.is_tuple ? elements[i] : 0);
      },
      options_.replicate_indivisible_boundary);
  replicated_boundary_ = root.sharding != before;
  record_origins(root, root);
  const bool single = is_single_tuple(entry);
  for (size_t p = 0; p < entry.parameters().size(); ++p) {
    Node& parameter = *entry.parameters()[p];
    const std::vector<size_t> parts = elements_of_leaves(parameter.shape);
    before = parameter.sharding;
    // Read by manual code it is manual: that is no choice of a layout.
    const bool manual = !saved_parameters_[p] && is_all_manual(parameter.sharding);
    parameter.sharding = boundary(
        parameter.shape, saved_parameters_[p], parameter.sharding,
        [&](size_t i) {
          return manual || is_open_at(options_.allow_parameters, single ? parts[i] : p);
        },
        options_.replicate_indivisible_boundary);
    replicated_boundary_ |= parameter.sharding != before;
    record_origins(parameter, parameter);
  }
}

bool Propagation::differs_from(const std::vector<std::optional<Sharding>>& before) const {
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes()) {
      const auto id = static_cast<size_t>(node->id());
      if (id >= before.size() || before[id] != node->sharding) return true;
    }
  return false;
}

bool Propagation::run() {
  check_boundary_flags();
  std::vector<std::optional<Sharding>> before(static_cast<size_t>(module_.next_id()));
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes())
      before.at(static_cast<size_t>(node->id())) = node->sharding;
  convert_sharding_ops();
  restructured_ |= split_manual_constants(module_);
  detach_root();
  detach_borders();
  collect_groups();
  group_donated();
  const Computation& entry = *module_.entry();
  const auto saved = [](const Node& node) {
    return node.sharding ? std::optional(with_unknown_replicated(*node.sharding)) : std::nullopt;
  };
  for (const Node* parameter : entry.parameters()) saved_parameters_.push_back(saved(*parameter));
  flags_.assign(static_cast<size_t>(module_.next_id()), 0);
  changed_.assign(flags_.size(), 0);
  operand_changed_.assign(flags_.size(), 0);
  leads_nowhere_.assign(flags_.size(), 0);
  from_operands_.resize(flags_.size());
  from_users_.resize(flags_.size());
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes())
      if (node->sharding && node->origins.empty()) record_origins(*node, *node);
  place_channels();
  link_related_nodes();
  read_levels();
  // What the computations that the result comes from are annotated with is the result's too.
  saved_root_ = saved(*entry.root());
  mark_given();
  withhold_later();
  do {
    for (int level = 0; level <= 3; ++level) run_to_fixed_point(level);
  } while (release_next_priority());
  // What a neighbour of a neighbour learned late is seen too, so that a second run finds nothing.
  constexpr int kMoreRuns = 8;
  for (int i = 0; i < kMoreRuns && run_to_fixed_point(3); ++i) continue;
  align_shard_as_groups();
  if (relay_barriers() || (!groups_.empty() && groups_.begin()->first < 0)) run_to_fixed_point(3);
  remove_barriers();
  restore_boundary();
  return restructured_ || differs_from(before);
}

bool uses_shardy(const Module& module, const PropagateOptions& options) {
  if (options.strategy != Strategy::automatic) return options.strategy == Strategy::shardy;
  return says_sdy(module);
}

bool propagate(Module& module, const PropagateOptions& options) {
  if (!module.entry() || !module.entry()->root())
    user_error("propagate: module {} has no entry computation", module.name);
  if (uses_shardy(module, options)) return propagate_shardy(module, options.shardy);
  if (lower_sdy(module)) verify_module(module);
  if (options.cse_prevention_only) return propagate_to_scalar_broadcasts(module, options);
  // A parameter that comes back replicated because it did not divide can open another way, which a
  // later run would then take: once more from there, so that a completed module stays as it is. Not
  // where barriers have gone: they would have stopped it.
  constexpr int kMaxRuns = 4;
  bool changed = drop_cse_prevention(module);
  for (int i = 0; i < kMaxRuns; ++i) {
    Propagation propagation(module, options);
    if (!propagation.run()) break;
    changed = true;
    if (!propagation.may_find_more()) break;
  }
  return changed;
}

}  // namespace gspmd
