// One node from its operands or from its readers (semantics.md 2.5, 2.6).

#include <algorithm>

#include "passes/factor_sharding.h"
#include "passes/propagation.h"

namespace gspmd {
namespace {

// The node has exactly one reader besides the root: another layout of it costs one reshard at most.
bool one_reader(const Node& node) {
  int64_t readers = 0;
  for (const Node* user : node.users())
    if (!user->is_root()) ++readers;
  return readers == 1;
}

bool is_manual(const Node& node) { return node.sharding && node.sharding->is_manual(); }

// Manual values meet none in a node that ends (starts, seen from behind) a manual region.
bool ends_manual(const Node& node) {
  return node.attrs.custom_call_target == "SPMDShardToFullShape";
}
bool starts_manual(const Node& node) {
  return node.attrs.custom_call_target == "SPMDFullToShardShape";
}

bool has_no_tiles(const Node& node) {
  if (!node.sharding) return true;
  const Sharding& s = *node.sharding;
  return s.is_replicated() || s.kind() == ShardingKind::maximal ||
         s.kind() == ShardingKind::unknown;
}

// A scalar beside arrays: an initial value, an index, a bound.
bool is_scalar_beside(const Node& node, const Node& operand) {
  return operand.rank() == 0 && std::any_of(node.operands().begin(), node.operands().end(),
                                            [](const Node* o) { return o->rank() > 0; });
}

}  // namespace

bool Propagation::become_manual(Node& node, const Node& via) {
  if (given(node)) return false;
  if (!node.shape.is_tuple) {
    set_sharding(node, Sharding::manual(), via);
    return true;
  }
  std::vector<Sharding> leaves(static_cast<size_t>(leaf_count(node.shape)), Sharding::manual());
  set_sharding(node, Sharding::tuple(std::move(leaves)), via);
  return true;
}

// An op that cannot be split is replicated beside replicated operands.
bool Propagation::copy_replication(Node& node, int level) {
  const bool effects =
      node.op().has(kSideEffect) || node.attrs.other.contains("custom_call_has_side_effect");
  if (node.shape.is_tuple || node.is_root() || effects || level < least_level(node)) return false;
  for (const Node* operand : node.operands())
    if (operand->sharding && (operand->sharding->is_replicated() || operand->sharding->is_manual()))
      return improve(node, *operand->sharding, *operand, level, false);
  return false;
}

bool Propagation::infer_from_operands(Node& node, int level) {
  if (!may_receive(node) || node.operands().empty()) return false;
  const bool structural = node.is(Opcode::tuple) || node.is(Opcode::while_) ||
                          node.is(Opcode::call) || node.is(Opcode::optimization_barrier);
  if (level >= least_level(node) && has_no_tiles(node) && !ends_manual(node) &&
      !(node.shape.is_tuple && structural) && !(level == 0 && node.is(Opcode::dynamic_slice)))
    for (const Node* operand : node.operands())
      if (is_manual(*operand)) return become_manual(node, *operand);
  if (!may_be_tiled(node)) return copy_replication(node, level);
  const OpInfo& op = node.op();
  const FactorRule* r = rule(node);
  if (op.forward_sharding) {
    bool changed = false;
    for (const ShardingProposal& p : op.forward_sharding(node, mode(level))) {
      const Node& via = p.operand < 0 ? node : *node.operand(p.operand);
      changed |= improve(node, p.sharding, via, level, one_reader(node), p.leaf);
    }
    return changed;
  }
  if (!r || r->operands.empty() || level < r->forward_level) return false;
  return r->policy == CombinePolicy::larger_first ? infer_dot_like(node, *r, level)
                                                  : infer_by_rule(node, *r, level);
}

// Elementwise operands meet in the result once partial shardings may be merged; else the most
// specific one decides, or the first where it leads.
bool Propagation::infer_by_rule(Node& node, const FactorRule& rule, int level) {
  const bool each = options_.spmd && level > 0 && node.op().has(kElementwise);
  const bool freely = one_reader(node) && (!each || node.operands().size() == 1);
  std::optional<Sharding> best;
  const Node* best_operand = nullptr;
  bool changed = false;
  for (size_t i = 0; i < rule.operands.size(); ++i) {
    Node* operand = node.operand(static_cast<int64_t>(i));
    if (is_scalar_beside(node, *operand)) continue;
    const int64_t leaf = node.shape.is_tuple ? static_cast<int64_t>(i) : 0;
    const auto candidate = result_from_operand(node, rule, static_cast<int64_t>(i), leaf);
    if (candidate && (each || node.shape.is_tuple)) {
      changed |= improve(node, *candidate, *operand, level, freely, leaf);
    } else if (candidate && (!best || more_specific(*candidate, *best))) {
      best = candidate;
      best_operand = operand;
    }
    if (!each && rule.policy == CombinePolicy::first_operand) break;
  }
  if (best) changed |= improve(node, *best, *best_operand, level, freely);
  return changed;
}

// Two operands that both improve the result: the one that the readers ahead agree with goes first,
// else the larger one.
bool Propagation::infer_dot_like(Node& node, const FactorRule& rule, int level) {
  const ImproveOptions options{options_.spmd && level > 0, false};
  std::optional<Sharding> improved[2];
  for (int64_t i = 0; i < 2; ++i)
    if (const auto candidate = result_from_operand(node, rule, i))
      improved[i] = better_leaf(node, node.shape, node.sharding, *candidate, options);
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
  set_sharding(node, *improved[first], *node.operand(first));
  if (const auto& second = improved[1 - first])
    improve(node, *second, *node.operand(1 - first), level, false);
  return true;
}

// What the first reader with a sharding would like this value to be, through readers that are
// alone.
std::optional<Sharding> Propagation::look_ahead(Node& node) {
  if (node.users().size() != 1) return std::nullopt;
  std::vector<Node*> chain{&node, node.users()[0]};
  while (!chain.back()->sharding) {
    if (chain.back()->users().size() != 1) return std::nullopt;
    chain.push_back(chain.back()->users()[0]);
  }
  constexpr int kEveryLevel = 4;
  std::optional<Sharding> wanted;
  size_t first_set = chain.size() - 1;
  for (size_t i = chain.size() - 1; i >= 1; --i) {
    Node* user = chain[i];
    Node* value = chain[i - 1];
    int64_t operand = 0;
    while (user->operand(operand) != value) ++operand;
    wanted = suggestion_of_user(*user, operand, kEveryLevel);
    if (!wanted || i == 1) break;
    value->sharding = wanted;  // so that the next one can ask it; taken back below
    first_set = i - 1;
  }
  for (size_t i = first_set; i + 1 < chain.size(); ++i) chain[i]->sharding.reset();
  if (wanted && (wanted->is_tuple() || !wanted->is_tiled())) return std::nullopt;
  return wanted;
}

std::optional<Sharding> Propagation::suggestion_of_user(const Node& user, int64_t operand,
                                                        int level) {
  if (!propagates(user.sharding)) return std::nullopt;
  if (user.op().backward_sharding) return user.op().backward_sharding(user, operand, mode(level));
  const FactorRule* r = rule(user);
  if (!r || level < r->backward_level || user.shape.is_tuple) return std::nullopt;
  if (operand >= static_cast<int64_t>(r->operands.size())) return std::nullopt;
  if (is_scalar_beside(user, *user.operand(operand))) return std::nullopt;
  std::optional<Sharding> from_result = operand_from_result(user, *r, operand);
  if (r->policy != CombinePolicy::larger_first) return from_result;
  // The other operand has a say in the loops that the result does not see.
  const auto from_other = operand_from_operand(user, *r, operand, 1 - operand);
  if (!from_other || !from_result) return from_result ? from_result : from_other;
  const auto better = improve_sharding(user.operand(operand)->shape, from_result, *from_other,
                                       {options_.spmd && level > 0, true});
  return better ? better : from_result;
}

bool Propagation::infer_from_users(Node& node, int level) {
  if (!may_receive(node)) return false;
  // A broadcast waits: its readers may want it in several layouts.
  if (level < least_level(node) && node.is(Opcode::broadcast)) return false;
  const std::vector<Node*> users = node.users();
  if (!node.sharding && !node.shape.is_tuple)
    for (const Node* user : users)
      if (is_manual(*user) && !starts_manual(*user)) return become_manual(node, *user);
  if (!may_be_tiled(node)) return false;
  bool changed = false;
  for (Node* user : users)
    for (size_t i = 0; i < user->operands().size(); ++i) {
      if (user->operands()[i] != &node) continue;
      const auto candidate = suggestion_of_user(*user, static_cast<int64_t>(i), level);
      if (candidate) changed |= improve(node, *candidate, *user, level, false);
    }
  return changed;
}

}  // namespace gspmd
