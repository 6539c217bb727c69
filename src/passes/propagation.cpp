#include "passes/propagation.h"

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
      for (Node* operand : node->operands())
        if (state[position.at(operand)] == unseen) stack.push_back(operand);
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
  if (given(node)) {
    if (!node.sharding || node.sharding->is_tuple()) return false;
    const auto& open = node.sharding->open();
    return std::find(open.begin(), open.end(), true) != open.end();
  }
  if (node.op().has(kSideEffect)) return false;
  const bool entry = &node.parent() == module_.entry();
  if (node.is(Opcode::parameter) && entry)
    return std::find(options_.allow_parameters.begin(), options_.allow_parameters.end(), true) !=
           options_.allow_parameters.end();
  return true;
}

bool Propagation::improve_leaf(Node& node, int64_t leaf, const Shape& shape, const Sharding& candidate,
                               const ImproveOptions& options,
                               std::optional<Sharding>& current) const {
  if (!given(node)) {
    std::optional<Sharding> better = improve_sharding(shape, current, candidate, options);
    if (!better || (current && equivalent(*better, *current))) return false;
    current = *better;
    return true;
  }
  // A user's annotation: only its open dims may be refined.
  if (leaf != 0 || !options.merge_partial || !candidate.is_tiled() || candidate.is_replicated())
    return false;
  const std::vector<bool>& open = current->open();
  std::vector<Digits> dims(static_cast<size_t>(shape.rank()));
  for (size_t d = 0; d < dims.size() && d < open.size(); ++d)
    if (open[d]) dims[d] = candidate.dim(static_cast<int64_t>(d));
  const auto both = merge(*current, Sharding::tiled(candidate.order(), std::move(dims)), shape.rank());
  if (!both || both->num_tiles() <= current->num_tiles()) return false;
  current = both->with_open(open).with_mesh(current->mesh());
  return true;
}

bool Propagation::improve(Node& node, const Sharding& candidate, const Node& via, int level,
                          bool reshard_freely) {
  const ImproveOptions options{options_.spmd && level > 0, reshard_freely};
  bool better = false;
  if (!node.shape.is_tuple) {
    if (candidate.is_tuple()) return false;
    better = improve_leaf(node, 0, node.shape, candidate, options, node.sharding);
  } else {
    const std::vector<Shape> shapes = leaf_shapes(node.shape);
    std::vector<Sharding> leaves(shapes.size());
    if (node.sharding && node.sharding->is_tuple()) leaves = node.sharding->elements();
    if (leaves.size() != shapes.size())
      user_error("propagate: {} has {} leaves and a tuple sharding of {}", node.name(), shapes.size(),
                 leaves.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Sharding& wanted = candidate.is_tuple() ? candidate.elements().at(i) : candidate;
      std::optional<Sharding> current = leaves[i];
      if (!improve_leaf(node, static_cast<int64_t>(i), shapes[i], wanted, options, current)) continue;
      leaves[i] = *current;
      better = true;
    }
    better = better || !node.sharding;
    if (better) node.sharding = Sharding::tuple(std::move(leaves));
  }
  if (!better) return false;
  record_origins(node, via);
  copy_to_related(node);
  wake_neighbours(node);
  return changed_ = true;
}

void Propagation::copy_to_related(Node& node) {
  const auto found = related_.find(node.id());
  if (found == related_.end()) return;
  for (Node* other : found->second) {
    if (other->sharding && *other->sharding == *node.sharding) continue;
    if (!flags_.empty() && given(*other)) continue;
    other->sharding = node.sharding;
    if (!flags_.empty()) {
      record_origins(*other, node);
      wake_neighbours(*other);
    }
    copy_to_related(*other);
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

void Propagation::record_origins(Node& node, const Node& via) {
  const bool is_tuple = node.sharding->is_tuple();
  const size_t count = is_tuple ? node.sharding->elements().size() : 1;
  std::vector<Origin> origins;
  for (size_t leaf = 0; leaf < count; ++leaf) {
    const Sharding& sharding = is_tuple ? node.sharding->elements()[leaf] : *node.sharding;
    for (int64_t d = 0; d < sharding.rank(); ++d)
      for (const Digit& digit : sharding.dim(d)) {
        Origin origin{static_cast<int64_t>(leaf), d, digit, node.name(), {}};
        const auto known = std::find_if(node.origins.begin(), node.origins.end(), [&](const Origin& o) {
          return o.leaf == origin.leaf && o.dim == d && o.digit == digit;
        });
        if (known != node.origins.end()) {
          origins.push_back(*known);
          continue;
        }
        if (&via != &node) {
          origin.via = via.name();
          const auto source = std::find_if(via.origins.begin(), via.origins.end(),
                                           [&](const Origin& o) { return o.digit == digit; });
          origin.annotation = source == via.origins.end() ? via.name() : source->annotation;
        }
        origins.push_back(std::move(origin));
      }
  }
  node.origins = std::move(origins);
}

namespace {

// The node has exactly one reader besides the root: another layout of it costs one reshard at most.
bool one_reader(const Node& node) {
  int64_t readers = 0;
  for (const Node* user : node.users())
    if (!user->is_root()) ++readers;
  return readers == 1;
}

}  // namespace

bool Propagation::infer_from_operands(Node& node, int level) {
  if (!may_receive(node)) return false;
  const OpInfo& op = node.op();
  if (op.forward_sharding) {
    const auto candidate = op.forward_sharding(node, level);
    if (!candidate) return false;
    const Node& via = node.operands().empty() ? node : *node.operand(0);
    return improve(node, *candidate, via, level, one_reader(node));
  }
  const FactorRule* r = rule(node);
  if (!r || r->operands.empty() || level < r->forward_level) return false;
  if (r->policy == CombinePolicy::larger_first) return infer_dot_like(node, *r, level);
  const bool each = options_.spmd && level > 0 && r->policy == CombinePolicy::merge_all;
  std::optional<Sharding> best;
  const Node* best_operand = nullptr;
  bool changed = false;
  for (size_t i = 0; i < r->operands.size(); ++i) {
    if (r->policy == CombinePolicy::first_operand && i > 0) break;
    Node* operand = node.operand(static_cast<int64_t>(i));
    if (operand->rank() == 0 && node.rank() > 0) continue;
    const auto candidate = result_from_operand(node, *r, static_cast<int64_t>(i));
    if (!candidate) continue;
    if (each) {
      changed |= improve(node, *candidate, *operand, level, one_reader(node));
    } else if (!best || more_specific(*candidate, *best)) {
      best = candidate;
      best_operand = operand;
    }
  }
  if (best) changed = improve(node, *best, *best_operand, level, one_reader(node));
  return changed;
}

// Two operands that both improve the result: the one that the readers ahead agree with goes first, else
// the larger one.
bool Propagation::infer_dot_like(Node& node, const FactorRule& rule, int level) {
  const ImproveOptions options{options_.spmd && level > 0, false};
  std::optional<Sharding> improved[2];
  for (int64_t i = 0; i < 2; ++i)
    if (const auto candidate = result_from_operand(node, rule, i))
      improved[i] = improve_sharding(node.shape, node.sharding, *candidate, options);
  if (!improved[0] && !improved[1]) return false;
  int64_t first = improved[0] ? 0 : 1;
  if (improved[0] && improved[1]) {
    first = node.operand(0)->shape.bytes() < node.operand(1)->shape.bytes() ? 1 : 0;
    if (const auto wanted = look_ahead(node)) {
      const bool fits0 = is_sub_tiling(*wanted, *improved[0], node.shape);
      const bool fits1 = is_sub_tiling(*wanted, *improved[1], node.shape);
      if (fits0 != fits1) first = fits0 ? 0 : 1;
    }
  }
  bool changed = false;
  for (const int64_t i : {first, 1 - first})
    if (const auto candidate = result_from_operand(node, rule, i))
      changed |= improve(node, *candidate, *node.operand(i), level, false);
  return changed;
}

std::optional<Sharding> Propagation::look_ahead(Node& node) {
  if (node.users().size() != 1) return std::nullopt;
  std::vector<Node*> chain{&node, node.users()[0]};
  while (!chain.back()->sharding) {
    if (chain.back()->users().size() != 1) return std::nullopt;
    chain.push_back(chain.back()->users()[0]);
  }
  std::optional<Sharding> wanted;
  size_t last_set = chain.size() - 1;
  for (size_t i = chain.size() - 1; i >= 1; --i) {
    Node* user = chain[i];
    Node* value = chain[i - 1];
    int64_t operand = 0;
    while (user->operand(operand) != value) ++operand;
    wanted = suggestion_of_user(*user, operand, 4);
    if (!wanted || i == 1) break;
    value->sharding = wanted;  // so that the next one can ask it; taken back below
    last_set = i - 1;
  }
  for (size_t i = last_set; i + 1 < chain.size(); ++i) chain[i]->sharding.reset();
  return wanted;
}

std::optional<Sharding> Propagation::suggestion_of_user(const Node& user, int64_t operand, int level) {
  if (user.op().backward_sharding) return user.op().backward_sharding(user, operand, level);
  const FactorRule* r = rule(user);
  if (!r || level < r->backward_level) return std::nullopt;
  if (operand >= static_cast<int64_t>(r->operands.size())) return std::nullopt;
  if (user.operand(operand)->rank() == 0 && user.rank() > 0) return std::nullopt;
  std::optional<Sharding> from_result = operand_from_result(user, *r, operand);
  if (r->policy != CombinePolicy::larger_first || !options_.spmd) return from_result;
  // The other operand has a say in the loops that the result does not see.
  const Node& other = *user.operand(1 - operand);
  if (!other.sharding || !other.sharding->is_tiled() || other.sharding->is_replicated())
    return from_result;
  const FactorDigits factors = factors_of(*r, r->operands[static_cast<size_t>(1 - operand)], *other.sharding);
  const Sharding from_other =
      project(other.sharding->order(), r->operands[static_cast<size_t>(operand)], factors);
  if (!from_result) return from_other;
  const auto better =
      improve_sharding(user.operand(operand)->shape, from_result, from_other, {level > 0, false});
  return better ? better : from_result;
}

bool Propagation::infer_from_users(Node& node, int level) {
  if (!may_receive(node)) return false;
  bool changed = false;
  const std::vector<Node*> users = node.users();
  for (Node* user : users)
    for (size_t i = 0; i < user->operands().size(); ++i) {
      if (user->operands()[i] != &node) continue;
      if (!user->sharding && !user->op().backward_sharding) continue;
      const auto candidate = suggestion_of_user(*user, static_cast<int64_t>(i), level);
      if (candidate) changed |= improve(node, *candidate, *user, level, one_reader(node));
    }
  return changed;
}

bool Propagation::sweep_groups(int level) {
  bool changed = false;
  for (const auto& [id, members] : groups_)
    for (Node* node : members)
      for (const Node* other : members)
        if (other != node && other->sharding && may_receive(*node))
          changed |= improve(*node, *other->sharding, *other, level, true);
  return changed;
}

bool Propagation::sweep_computation(Computation& computation, int level) {
  bool changed = false;
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
    bool changed = sweep_groups(level);
    for (Computation* computation : computations_) changed |= sweep_computation(*computation, level);
    if (!changed) return;
  }
}

}  // namespace gspmd
