#include "passes/complete/propagation.h"

#include <algorithm>

#include "base/sanitized.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "ops/common/completion_rules.h"

namespace gspmd {

std::vector<Node*> post_order(const Computation& computation) {
  enum : uint8_t { unseen, open, done };
  if (computation.nodes().empty()) return {};
  const auto by_id = [](const auto& a, const auto& b) { return a->id() < b->id(); };
  const auto& nodes = computation.nodes();
  const auto [first, last] = std::minmax_element(nodes.begin(), nodes.end(), by_id);
  const int64_t least = (*first)->id();
  std::vector<uint8_t> states(static_cast<size_t>((*last)->id() - least) + 1, unseen);
  const auto state = [&](const Node* node) -> uint8_t& {
    return states[static_cast<size_t>(node->id() - least)];
  };
  std::vector<Node*> order;
  std::vector<Node*> stack;
  order.reserve(nodes.size());
  for (const auto& start : nodes) {
    if (!start->users().empty()) continue;
    stack.push_back(start.get());
    while (!stack.empty()) {
      Node* node = stack.back();
      uint8_t& mark = state(node);
      if (mark != unseen) {
        stack.pop_back();
        if (mark == open) order.push_back(node);
        mark = done;
        continue;
      }
      mark = open;
      const auto& operands = node->operands();
      for (auto it = operands.rbegin(); it != operands.rend(); ++it)
        if (state(*it) == unseen) stack.push_back(*it);
    }
  }
  return order;
}

bool Propagation::may_be_tiled(const Node& node) const {
  const auto any = [](const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), true) != flags.end();
  };
  const bool embedded = caller_.contains(&node.parent());
  const bool entry = &node.parent() == module_.entry();
  if (node.is_root() && !embedded && !(entry && any(options_.allow_output))) return false;
  if (node.is(Opcode::parameter)) return embedded || any(options_.allow_parameters);
  const OpInfo& op = node.op();
  return !op.completion.may_be_tiled || op.completion.may_be_tiled(node, options_.spmd);
}

// A user's annotation changes in its open dims only.
std::optional<Sharding> Propagation::better_leaf(const Node& node, const Shape& shape,
                                                 const std::optional<Sharding>& current,
                                                 Sharding candidate,
                                                 const ImproveOptions& options) const {
  if (!candidate.open().empty()) candidate = candidate.with_open({});
  if (candidate.is_tiled() && !candidate.unreduced().empty())
    candidate = candidate.with_unreduced({});
  if (candidate.rank() > shape.rank()) return std::nullopt;
  if (!given(node)) {
    if (current && *current == candidate) return std::nullopt;
    std::optional<Sharding> better = improve_sharding(shape, current, candidate, options);
    if (better && current && equivalent(*better, *current)) return std::nullopt;
    return better;
  }
  if (!options.merge_partial || !current || !candidate.is_tiled() || !candidate.order())
    return std::nullopt;
  const std::vector<bool>& open = current->open();
  std::vector<Digits> dims(static_cast<size_t>(shape.rank()));
  for (size_t d = 0; d < dims.size() && d < open.size(); ++d)
    if (open[d]) dims[d] = candidate.dim(static_cast<int64_t>(d));
  const Sharding part =
      Sharding::tiled(candidate.order(), std::move(dims), candidate.manual_digits());
  const auto both = current->mesh() && candidate.mesh()
                        ? merge_by_prefix(*current, part, shape.rank())
                        : merge(*current, part, shape.rank());
  if (!both || both->num_tiles() <= current->num_tiles()) return std::nullopt;
  return both->with_open(open).with_mesh(current->mesh());
}

bool Propagation::improve(Node& node, const Sharding& candidate, const Node& via, int level,
                          bool reshard_freely, int64_t leaf) {
  ImproveOptions options{options_.spmd && level > 0, reshard_freely};
  if (!node.shape.is_tuple) {
    if (candidate.is_tuple()) return false;
    const bool is_there = node.sharding && !given(node) && candidate.open().empty() &&
                          candidate.unreduced().empty() && *node.sharding == candidate;
    if (is_there) return false;  // as most are, in the end
    auto better = better_leaf(node, node.shape, node.sharding, candidate, options);
    if (!better) return false;
    set_sharding(node, std::move(*better), via);
    return true;
  }
  if (!propagates(candidate)) return false;
  options.reshard_freely = true;  // a tuple has no layout of its own to protect
  return improve_leaves(node, candidate, via, options, leaf);
}

bool Propagation::improve_leaves(Node& node, const Sharding& candidate, const Node& via,
                                 const ImproveOptions& options, int64_t leaf) {
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  if (node.sharding && !node.sharding->is_tuple()) {
    node.sharding = Sharding::tuple(std::vector<Sharding>(shapes.size(), *node.sharding));
    mark_changed(node);
  }
  if (node.sharding && node.sharding->elements().size() != shapes.size())
    user_error(place_of(node), "propagate: {} has {} leaves and a tuple sharding of {}",
               node.name(), shapes.size(), node.sharding->elements().size());
  if (candidate.is_tuple() && candidate.elements().size() != shapes.size()) return false;
  std::vector<Sharding> leaves;  // filled with the first improvement
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (leaf >= 0 && leaf != static_cast<int64_t>(i)) continue;
    const Sharding& wanted = candidate.is_tuple() ? candidate.elements().at(i) : candidate;
    if (wanted.is_replicated()) continue;  // no improvement on anything
    std::optional<Sharding> improved;
    if (!node.sharding)
      improved = wanted;  // any sharding is better than none
    else
      improved = better_leaf(node, shapes[i], node.sharding->elements()[i], wanted, options);
    if (!improved || improved->rank() > shapes[i].rank()) continue;
    if (leaves.empty())
      leaves = node.sharding ? node.sharding->elements() : std::vector<Sharding>(shapes.size());
    leaves[i] = std::move(*improved);
  }
  if (leaves.empty() && node.sharding) return false;
  leaves.resize(shapes.size());
  set_sharding(node, Sharding::tuple(std::move(leaves)), via);
  return true;
}

void Propagation::set_sharding(Node& node, Sharding sharding, const Node& via,
                               const std::vector<const Node*>& by_leaf) {
  node.sharding = std::move(sharding);
  mark_changed(node);
  record_origins(node, via, by_leaf);
  copy_to_related(node);
  wake_neighbours(node);
}

void Propagation::wake_neighbours(const Node& node) {
  for (const Node* operand : node.operands())
    flags(*operand) &= static_cast<uint8_t>(~kDoneFromUsers);
  for (const Node* user : node.users()) {
    flags(*user) &= static_cast<uint8_t>(~kDoneFromOperands);
    if (!user->is(Opcode::while_) && !user->is(Opcode::call) && !user->is(Opcode::conditional))
      continue;
    for (const Computation* called : user->called)
      for (const Node* parameter : called->parameters())
        flags(*parameter) &= static_cast<uint8_t>(~kDoneFromOperands);
  }
}

void Propagation::mark_changed(const Node& node) {
  changed_[static_cast<size_t>(node.id())] = ++time_;
  for (const Node* user : node.users()) operand_changed_[static_cast<size_t>(user->id())] = time_;
  // Those before it lead to it now.
  std::vector<const Node*> found{&node};
  while (!found.empty()) {
    const Node* const next = found.back();
    found.pop_back();
    if (std::exchange(leads_nowhere_[static_cast<size_t>(next->id())], uint8_t{0}) == 0) continue;
    for (const Node* operand : next->operands())
      if (operand->users().size() == 1) found.push_back(operand);
  }
}

// What a visit finds depends on the sharding of the node, and on those of its operands or on those
// of its readers and of what these read; and on the level where that is one from which on an op of
// them speaks. Those whose layout others than their neighbours may change are visited again. Of
// operands that are weighed readers ahead say who wins, but not whether one of them does.
bool Propagation::would_find_nothing(const Node& node, From from, const Visit& last,
                                     int level) const {
  if (last.time < 0 || last.level > level || (last.level == 0 && level > 0)) return false;
  const auto id = static_cast<size_t>(node.id());
  const auto upto = [](int last_level) { return (2U << static_cast<unsigned>(last_level)) - 1; };
  const unsigned begun = upto(level) & ~upto(last.level);
  const auto is_plain = [&](size_t of) {
    return levels_[of].is_plain && (levels_[of].begins & begun) == 0;
  };
  if (changed_[id] > last.time || (flags_[id] & kGiven) != 0 || !is_plain(id)) return false;
  if (from == From::operands)  // the argument of a parameter stands elsewhere
    return operand_changed_[id] <= last.time && !node.is(Opcode::parameter);
  return std::all_of(node.users().begin(), node.users().end(), [&](const Node* user) {
    const auto of = static_cast<size_t>(user->id());
    return changed_[of] <= last.time && operand_changed_[of] <= last.time && is_plain(of);
  });
}

void Propagation::read_levels() {
  levels_.resize(flags_.size());
  for (const Computation* computation : computations_)
    for (const auto& node : computation->nodes()) {
      const CompletionRules& rules = node->op().completion;
      OpLevels& levels = levels_[static_cast<size_t>(node->id())];
      levels.speaks = static_cast<int8_t>(completion_level(*node));
      for (const int at : {rules.level, rules.forward_level, rules.backward_level})
        levels.begins |= static_cast<uint8_t>(1U << static_cast<unsigned>(at));
      levels.is_plain = !rules.may_be_tiled || rules.may_be_tiled == pointwise_may_be_tiled;
    }
}

// `infer` at a node, unless it would find nothing; sanitized builds look whether that is so.
template <class Infer>
bool Propagation::visit(Node& node, From from, Visit& last, int level, Infer&& infer) {
  if (!would_find_nothing(node, from, last, level)) {
    last = {time_, level};
    return at_node(node, infer);
  }
  if constexpr (kIsSanitized) {
    if (at_node(node, infer))
      internal_error("propagate: a visit of {} at level {} that was to be left out found something",
                     node.name(), level);
  }
  return false;
}

bool Propagation::improve_member(Node& node, const std::vector<Node*>& group, int level) {
  bool changed = false;
  if (is_all_manual(node.sharding) || node.attrs.custom_call_target == "ShardBarrierTo")
    return false;
  if (given(node) && (!node.sharding || node.sharding->open().empty())) return false;
  for (const Node* other : group) {
    if (other == &node || !other->sharding || other->sharding->is_tuple()) continue;
    if (other->sharding->is_manual() && (!node.sharding || !node.sharding->order()))
      changed |= become_manual(node, *other);
    else if (other->attrs.custom_call_target != "ShardBarrierFrom")
      changed |= improve(node, *other->sharding, *other, level, false);
  }
  return changed;
}

// What a member finds depends on the shardings of its group, and on whether partial ones merge.
bool Propagation::sweep_group_members(Computation& computation, int level) {
  const auto found = members_.find(&computation);
  if (found == members_.end()) return false;
  bool changed = false;
  for (Member& member : found->second) {
    if (level < level_of(*member.node)) continue;
    const Visit& last = member.last;
    if (last.time >= 0 && (last.level > 0) == (level > 0) &&
        std::none_of(member.group->begin(), member.group->end(), [&](const Node* node) {
          return changed_[static_cast<size_t>(node->id())] > last.time;
        }))
      continue;
    member.last = {time_, level};
    changed |= improve_member(*member.node, *member.group, level);
  }
  return changed;
}

bool Propagation::sweep_computation(Computation& computation, int level) {
  bool changed = sweep_group_members(computation, level);
  const std::vector<Visited>& order = orders_[&computation];
  for (const auto& [node, id] : order) {
    if (flags_[id] & kDoneFromOperands) continue;
    flags_[id] |= kDoneFromOperands;
    changed |= visit(*node, From::operands, from_operands_[id], level,
                     [&, n = node] { return infer_from_operands(*n, level); });
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (flags_[it->id] & kDoneFromUsers) continue;
    flags_[it->id] |= kDoneFromUsers;
    changed |= visit(*it->node, From::users, from_users_[it->id], level,
                     [&] { return infer_from_users(*it->node, level); });
  }
  return changed;
}

bool Propagation::run_to_fixed_point(int level) {
  for (uint8_t& f : flags_) f &= kGiven;
  // Tiles only grow, so this ends by itself; ties between computations that contradict each other
  // are left as they stand.
  const int64_t bound = 64 + 2 * static_cast<int64_t>(flags_.size());
  bool any = false;
  for (int64_t sweep = 0; sweep < bound; ++sweep) {
    bool changed = false;
    for (Computation* computation : computations_)
      changed |= sweep_computation(*computation, level);
    if (options_.stats) ++options_.stats->sweeps;
    if (!changed) break;
    any = true;
  }
  return any;
}

}  // namespace gspmd
