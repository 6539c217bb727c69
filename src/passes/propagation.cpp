#include "passes/propagation.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "passes/factor_sharding.h"

namespace gspmd {

std::vector<Node*> post_order(const Computation& computation) {
  enum : uint8_t { unseen, open, done };
  std::map<const Node*, size_t> position;  // only looked up, never iterated
  for (const auto& node : computation.nodes()) position.emplace(node.get(), position.size());
  std::vector<uint8_t> state(position.size(), unseen);
  std::vector<Node*> order;
  std::vector<Node*> stack;
  for (const auto& start : computation.nodes()) {
    if (!start->users().empty()) continue;
    stack.push_back(start.get());
    while (!stack.empty()) {
      Node* node = stack.back();
      uint8_t& mark = state[position.at(node)];
      if (mark != unseen) {
        stack.pop_back();
        if (mark == open) order.push_back(node);
        mark = done;
        continue;
      }
      mark = open;
      const auto& operands = node->operands();
      for (auto it = operands.rbegin(); it != operands.rend(); ++it)
        if (state[position.at(*it)] == unseen) stack.push_back(*it);
    }
  }
  return order;
}

const FactorRule* Propagation::rule(const Node& node) {
  if (!node.op().factors) return nullptr;
  auto& slot = rules_.at(static_cast<size_t>(node.id()));
  if (!slot) slot = std::make_unique<FactorRule>(node.op().factors(node));
  return slot.get();
}

bool Propagation::may_receive(const Node& node) const {
  if (node.sharding && node.sharding->is_manual()) return false;
  if (given(node)) {
    if (!node.sharding || node.sharding->is_tuple()) return false;
    const auto& open = node.sharding->open();
    return std::find(open.begin(), open.end(), true) != open.end();
  }
  return true;
}

bool Propagation::may_be_tiled(const Node& node) const {
  const OpInfo& op = node.op();
  if (op.has(kSideEffect)) return false;
  if (node.is(Opcode::parameter) && &node.parent() == module_.entry())
    return std::find(options_.allow_parameters.begin(), options_.allow_parameters.end(), true) !=
           options_.allow_parameters.end();
  return !op.may_be_tiled || op.may_be_tiled(node, options_.spmd);
}

// From which level on the op takes part at all.
int Propagation::least_level(const Node& node) {
  if (const FactorRule* r = rule(node)) return std::min(r->forward_level, r->backward_level);
  return node.op().forward_sharding && !node.op().may_be_tiled ? 0 : 1;
}

// A user's annotation changes in its open dims only.
std::optional<Sharding> Propagation::better_leaf(const Node& node, const Shape& shape,
                                                 const std::optional<Sharding>& current,
                                                 Sharding candidate,
                                                 const ImproveOptions& options) const {
  candidate = candidate.with_open({});
  if (candidate.is_tiled() && !candidate.unreduced().empty())
    candidate = candidate.with_unreduced({});
  if (!given(node)) {
    std::optional<Sharding> better = improve_sharding(shape, current, candidate, options);
    if (better && current && equivalent(*better, *current)) return std::nullopt;
    return better;
  }
  if (!options.merge_partial || !candidate.is_tiled() || !candidate.order()) return std::nullopt;
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
    auto better = better_leaf(node, node.shape, node.sharding, candidate, options);
    if (!better) return false;
    set_sharding(node, std::move(*better), via);
    return true;
  }
  if (!propagates(candidate)) return false;
  options.reshard_freely = true;  // a tuple has no layout of its own to protect
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  if (node.sharding && !node.sharding->is_tuple())
    node.sharding = Sharding::tuple(std::vector<Sharding>(shapes.size(), *node.sharding));
  if (node.sharding && node.sharding->elements().size() != shapes.size())
    user_error("propagate: {} has {} leaves and a tuple sharding of {}", node.name(), shapes.size(),
               node.sharding->elements().size());
  std::vector<Sharding> leaves;  // filled with the first improvement
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (leaf >= 0 && leaf != static_cast<int64_t>(i)) continue;
    const Sharding& wanted = candidate.is_tuple() ? candidate.elements().at(i) : candidate;
    if (wanted.is_replicated()) continue;  // no improvement on anything
    std::optional<Sharding> improved;
    if (!node.sharding && wanted.kind() == ShardingKind::maximal)
      improved = wanted;  // a tuple holds what it is made of
    else
      improved = better_leaf(node, shapes[i],
                             node.sharding ? node.sharding->elements()[i] : Sharding::replicated(),
                             wanted, options);
    if (!improved) continue;
    if (leaves.empty())
      leaves = node.sharding ? node.sharding->elements() : std::vector<Sharding>(shapes.size());
    leaves[i] = std::move(*improved);
  }
  if (leaves.empty() && node.sharding) return false;
  leaves.resize(shapes.size());
  set_sharding(node, Sharding::tuple(std::move(leaves)), via);
  return true;
}

void Propagation::set_sharding(Node& node, Sharding sharding, const Node& via) {
  node.sharding = std::move(sharding);
  record_origins(node, via);
  copy_to_related(node);
  wake_neighbours(node);
}

void Propagation::copy_to_related(Node& node) {
  const auto found = related_.find(node.id());
  if (found == related_.end()) return;
  for (Node* other : found->second) {
    if (other->sharding && *other->sharding == *node.sharding) continue;
    if (given(*other)) continue;
    set_sharding(*other, *node.sharding, node);
  }
}

void Propagation::wake_neighbours(const Node& node) {
  for (const Node* operand : node.operands())
    flags(*operand) &= static_cast<uint8_t>(~kDoneFromUsers);
  for (const Node* user : node.users()) {
    flags(*user) &= static_cast<uint8_t>(~kDoneFromOperands);
    if (!user->is(Opcode::while_) && !user->is(Opcode::call)) continue;
    for (const Computation* called : user->called)
      for (const Node* parameter : called->parameters())
        flags(*parameter) &= static_cast<uint8_t>(~kDoneFromOperands);
  }
}

bool Propagation::sweep_group_members(Computation& computation, int level) {
  bool changed = false;
  if (groups_.empty()) return false;
  for (Node* node : orders_[&computation]) {
    const auto group = group_of_.find(node->id());
    if (group == group_of_.end() || !may_receive(*node) || level < least_level(*node)) continue;
    for (const Node* other : groups_[group->second])
      if (other != node && other->sharding && !other->sharding->is_tuple() &&
          other->attrs.custom_call_target != "ShardBarrierFrom")
        changed |= improve(*node, *other->sharding, *other, level, false);
  }
  return changed;
}

bool Propagation::sweep_computation(Computation& computation, int level) {
  bool changed = sweep_group_members(computation, level);
  const std::vector<Node*>& order = orders_[&computation];
  for (Node* node : order) {
    if (flags(*node) & kDoneFromOperands) continue;
    flags(*node) |= kDoneFromOperands;
    changed |= infer_from_operands(*node, level);
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (flags(**it) & kDoneFromUsers) continue;
    flags(**it) |= kDoneFromUsers;
    changed |= infer_from_users(**it, level);
  }
  return changed;
}

void Propagation::run_to_fixed_point(int level) {
  for (uint8_t& f : flags_) f &= kGiven;
  // Tiles only grow, so this ends; the bound turns a defect into an error instead of a hang.
  const int64_t bound = 64 + 2 * static_cast<int64_t>(flags_.size());
  for (int64_t sweep = 0;; ++sweep) {
    if (sweep > bound)
      internal_error("propagate: no fixed point after {} sweeps at level {}", sweep, level);
    bool changed = false;
    for (Computation* computation : computations_)
      changed |= sweep_computation(*computation, level);
    if (!changed) return;
  }
}

}  // namespace gspmd
