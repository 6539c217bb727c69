// One node from its operands or from its readers (docs/spec/completion.md 5, 6).

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "passes/complete/propagation.h"

namespace gspmd {
namespace {

// Manual values meet none in a node that ends (starts, seen from behind) a manual region.
bool ends_manual(const Node& node) {
  return node.attrs.custom_call_target == "SPMDShardToFullShape";
}
bool starts_manual(const Node& node) {
  return node.attrs.custom_call_target == "SPMDFullToShardShape";
}

bool has_no_tiles(const Node& node) {
  if (!node.sharding) return true;
  const auto whole = [](const Sharding& s) {
    return s.is_replicated() || s.kind() == ShardingKind::maximal;
  };
  if (!node.sharding->is_tuple()) return whole(*node.sharding);
  return std::all_of(node.sharding->elements().begin(), node.sharding->elements().end(), whole);
}

// The start of an operation names its thread; its updates and its end need not repeat it.
bool is_main_thread(const Node& node) {
  const Node* at = &node;
  while ((at->is(Opcode::async_update) || at->is(Opcode::async_done)) && !at->operands().empty())
    at = at->operand(0);
  const auto found = at->attrs.other.find("async_execution_thread");
  return found == at->attrs.other.end() || found->second == "\"main\"" || found->second == "main";
}

// All parts are manual if one is. A tuple only lists values.
bool is_made_as_one(const Node& node) { return !node.shape.is_tuple || node.op().has(kMadeAsOne); }

bool takes_manual(const Node& node) {
  if (is_made_as_one(node)) return true;
  const bool async =
      node.is(Opcode::async_start) || node.is(Opcode::async_update) || node.is(Opcode::async_done);
  return async && !is_main_thread(node);
}

// The end or start of a manual region right after an annotation with the same open dims.
Node* conversion_after(const Node& annotation) {
  if (annotation.users().size() != 1) return nullptr;
  Node* user = annotation.users()[0];
  if (!user->is(Opcode::custom_call) || !(ends_manual(*user) || starts_manual(*user)))
    return nullptr;
  return annotation.sharding && unspecified_dims(*user) == annotation.sharding->open() ? user
                                                                                       : nullptr;
}

bool is_array_element(const Node& user, const Node& value) {
  return value.shape.is_tuple && user.is(Opcode::get_tuple_element) && !user.shape.is_tuple;
}

// Random numbers of one seed: every device starts from all of it, whatever the seed is made of.
const Node* generator_of_seed(const Node& node) {
  for (const Node* user : node.users())
    if (user->is(Opcode::rng_bit_generator)) return user;
  return nullptr;
}

// What is manual of a value in a region that is manual on some axes, with all dims whole; nullopt
// outside of such.
std::optional<Sharding> region_of(const Node& node, int64_t rank) {
  const Sharding* s = tiled_leaf(node);
  if (!s || s->manual_digits().empty()) return std::nullopt;
  return whole_except(*s, {}, rank);
}

}  // namespace

// A reader says what it wants of a value where it reads it first.
int64_t Propagation::first_position(const Node& user, const Node& value) {
  constexpr size_t kMany = 64;
  const std::vector<Node*>& operands = user.operands();
  if (operands.size() > kMany) {
    auto& known = positions_[&user];
    const auto found = known.find(&value);
    if (found != known.end() && found->second < operands.size() &&
        operands[found->second] == &value)
      return static_cast<int64_t>(found->second);
    known.clear();
    for (size_t i = 0; i < operands.size(); ++i) known.emplace(operands[i], i);
    return static_cast<int64_t>(known.at(&value));
  }
  return std::find(operands.begin(), operands.end(), &value) - operands.begin();
}

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

// An op that cannot be split is in the region that its neighbour is in.
bool Propagation::enter_region(Node& node, const Node& via) {
  if (!has_no_tiles(node) || !is_made_as_one(node) || node.is(Opcode::parameter)) return false;
  if (!region_of(via, 0)) return false;
  std::vector<Sharding> leaves;
  for (const Shape& leaf : leaf_shapes(node.shape)) leaves.push_back(*region_of(via, leaf.rank()));
  set_sharding(node, node.shape.is_tuple ? Sharding::tuple(std::move(leaves)) : leaves.at(0), via);
  return true;
}

// An op that cannot be split is replicated beside replicated operands.
bool Propagation::copy_replication(Node& node, int level) {
  if (node.shape.is_tuple || node.is_root() || has_effects(node)) return false;
  for (const Node* operand : node.operands())
    if (operand->sharding && !operand->sharding->is_tuple() && operand->sharding->is_replicated())
      return improve(node, *operand->sharding, *operand, level, false);
  return false;
}

// A tuple holds what it is made of: per leaf the more specific of value and present sharding.
bool Propagation::infer_tuple(Node& node) {
  const std::vector<ShardingProposal> proposals =
      proposals_of_operands(node, CompletionMode{0, options_.spmd});
  if (proposals.empty()) return false;
  std::vector<Sharding> wanted = proposals[0].sharding.elements();
  for (Sharding& leaf : wanted)
    if (leaf.is_tiled() && !leaf.unreduced().empty()) leaf = leaf.with_unreduced({});
  if (!node.sharding || !node.sharding->is_tuple() ||
      node.sharding->elements().size() != wanted.size()) {
    set_sharding(node, Sharding::tuple(std::move(wanted)), node);
    return true;
  }
  std::vector<Sharding> leaves = node.sharding->elements();
  bool changed = false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!more_specific(wanted[i], leaves[i])) continue;
    leaves[i] = wanted[i];
    changed = true;
  }
  if (changed) set_sharding(node, Sharding::tuple(std::move(leaves)), node);
  return changed;
}

bool Propagation::infer_from_operands(Node& node, int level) {
  if (level < level_of(node)) return false;
  if (given(node)) return refine_open(node, level, false);
  if (is_all_manual(node.sharding)) return false;
  if (node.is(Opcode::parameter)) {
    const Node* argument = argument_of(node);
    if (!argument || !argument->sharding || !may_be_tiled(node)) return false;
    return improve(node, *argument->sharding, *argument, level, false);
  }
  if (node.operands().empty()) return false;
  if (has_no_tiles(node) && takes_manual(node))
    for (const Node* operand : node.operands()) {
      if (!is_all_manual(operand->sharding)) continue;
      if (ends_manual(node)) return false;
      if (level == 0 && (node.is(Opcode::concatenate) || node.is(Opcode::dynamic_slice)))
        return false;
      return become_manual(node, *operand);
    }
  if (!may_be_tiled(node)) {
    for (const Node* operand : node.operands())
      if (enter_region(node, *operand)) return true;
    return copy_replication(node, level);
  }
  if (generator_of_seed(node)) return false;
  if (node.is(Opcode::tuple)) return infer_tuple(node);
  const std::vector<ShardingProposal> proposals = proposals_of_operands(node, mode(level));
  const bool weighed = node.op().completion.weighed;
  if (!proposals.empty() && weighed && !proposals[0].beside_nest)
    return weigh(node, proposals, level);
  bool changed = false;
  const bool freely = reshards_freely(node) && (!is_pointwise(node) || mode(level).level == 0 ||
                                                !options_.spmd || node.operands().size() == 1);
  for (const ShardingProposal& p : proposals) {
    const Node& via = p.operand < 0 ? node : *node.operand(p.operand);
    if (node.is(Opcode::get_tuple_element) && !p.sharding.is_tuple() && p.sharding.is_manual()) {
      changed |= become_manual(node, via);
      continue;
    }
    changed |= improve(node, p.sharding, via, level, freely, p.leaf);
  }
  return changed;
}

// Of two operands that both improve the result the one that the readers ahead agree with goes
// first, else the larger one.
bool Propagation::weigh(Node& node, const std::vector<ShardingProposal>& proposals, int level) {
  const ImproveOptions options{options_.spmd && level > 0, false};
  std::vector<std::pair<const Node*, Sharding>> improved;
  for (const ShardingProposal& p : proposals)
    if (auto better = better_leaf(node, node.shape, node.sharding, p.sharding, options))
      improved.emplace_back(node.operand(p.operand), *std::move(better));
  if (improved.empty()) return false;
  if (improved.size() == 2) {
    bool swaps = improved[0].first->shape.bytes() < improved[1].first->shape.bytes();
    if (const auto wanted = look_ahead(node)) {
      const bool fits0 = is_sub_tiling(*wanted, improved[0].second, node.shape);
      const bool fits1 = is_sub_tiling(*wanted, improved[1].second, node.shape);
      if (fits0 != fits1) swaps = fits1;
    }
    if (swaps) std::swap(improved[0], improved[1]);
  }
  set_sharding(node, improved[0].second, *improved[0].first);
  for (size_t i = 1; i < improved.size(); ++i)
    improve(node, improved[i].second, *improved[i].first, level, false);
  return true;
}

// What the first reader with a sharding would like this value to be, through readers that are
// alone.
std::optional<Sharding> Propagation::look_ahead(Node& node) {
  if (node.users().size() != 1) return std::nullopt;
  std::vector<Node*> chain{&node, node.users()[0]};
  const auto nowhere = [&](const Node* n) -> uint8_t& {
    return leads_nowhere_[static_cast<size_t>(n->id())];
  };
  while (!chain.back()->sharding) {
    if (chain.back()->users().size() != 1 || nowhere(chain.back()) != 0) {
      for (size_t i = 1; i < chain.size(); ++i) nowhere(chain[i]) = 1;
      return std::nullopt;
    }
    chain.push_back(chain.back()->users()[0]);
  }
  constexpr int kEveryLevel = 4;
  std::optional<Sharding> wanted;
  size_t first_set = chain.size() - 1;
  for (size_t i = chain.size() - 1; i >= 1; --i) {
    Node* user = chain[i];
    Node* value = chain[i - 1];
    wanted = suggestion_of_user(*user, first_position(*user, *value), kEveryLevel);
    if (!wanted || i == 1) break;
    value->sharding = wanted;  // so that the next one can ask it; taken back below
    first_set = i - 1;
  }
  for (size_t i = first_set; i + 1 < chain.size(); ++i) chain[i]->sharding.reset();
  if (wanted && (wanted->is_tuple() || !wanted->is_tiled())) return std::nullopt;
  return wanted;
}

// What is said later is heard where it makes what was said first finer; of operands that are
// weighed, also where it is more specific.
std::optional<Sharding> Propagation::suggestion_of_user(const Node& user, int64_t operand,
                                                        int level) {
  if (level < level_of(user) || !propagates(user.sharding)) return std::nullopt;
  if (user.op().completion.suggestions == same_dims_suggestions)  // as most: one, without a list
    return same_dims(user.operand(operand)->shape, user.shape) ? user.sharding : std::nullopt;
  std::vector<OperandSuggestion> said = suggestions_of_reader(user, operand, mode(level));
  if (said.empty()) return std::nullopt;
  Sharding wanted = std::move(said[0].sharding);
  const Shape& shape = user.operand(operand)->shape;
  for (size_t i = 1; i < said.size(); ++i) {
    std::optional<Sharding> both;
    if (user.op().completion.weighed)
      both = improve_sharding(shape, wanted, said[i].sharding, {options_.spmd && level > 0, true});
    else
      both = merge(wanted, said[i].sharding, shape.rank());
    if (both && (user.op().completion.weighed || wanted.is_replicated() ||
                 both->num_tiles() > wanted.num_tiles()))
      wanted = *std::move(both);
  }
  return wanted;
}

// Readers of single array elements, all at once: a tuple of many leaves is written once.
bool Propagation::infer_from_elements(Node& node, int level) {
  if (!node.shape.is_tuple) return false;
  if (node.sharding &&
      (!node.sharding->is_tuple() ||
       node.sharding->elements().size() != static_cast<size_t>(leaf_count(node.shape))))
    return false;
  const ImproveOptions options{options_.spmd && level > 0, true};
  std::vector<size_t> first_leaf{0};
  for (const Shape& element : node.shape.elements)
    first_leaf.push_back(first_leaf.back() + static_cast<size_t>(leaf_count(element)));
  std::vector<Sharding> leaves;  // filled with the first reader that has a say
  std::vector<const Node*> by_leaf;
  bool changed = false;
  for (const Node* user : node.users()) {
    if (!is_array_element(*user, node) || !propagates(user->sharding)) continue;
    const auto index = static_cast<size_t>(user->attrs.index);
    const size_t leaf = first_leaf.at(index);
    if (leaves.empty()) {
      by_leaf.resize(first_leaf.back());
      if (node.sharding)
        leaves = node.sharding->elements();
      else if (user->sharding->is_tiled() || user->sharding->is_manual())
        // The other leaves are whole, as manual as this one or in the same manual subgroups.
        for (const Shape& leaf_shape : leaf_shapes(node.shape))
          leaves.push_back(whole_except(*user->sharding, {}, leaf_shape.rank()));
      else
        leaves.resize(by_leaf.size());
      changed = !node.sharding;
    }
    const bool unset = !node.sharding && !by_leaf[leaf];
    std::optional<Sharding> better = *user->sharding;
    if (!unset || !better->unreduced().empty())
      better = better_leaf(node, node.shape.elements[index], leaves[leaf], *better, options);
    if (!better) continue;
    leaves[leaf] = better->with_open({});
    by_leaf[leaf] = user;
    changed = true;
  }
  if (!changed) return false;
  set_sharding(node, Sharding::tuple(std::move(leaves)), node, by_leaf);
  return true;
}

bool Propagation::infer_from_users(Node& node, int level) {
  // A broadcast waits: its readers may want it in several layouts.
  if (level < level_of(node) && node.op().completion.forward_level > level) return false;
  if (given(node)) return refine_open(node, level, true);
  if (is_all_manual(node.sharding)) return false;
  const std::vector<Node*>& users = node.users();
  if (!node.sharding && is_made_as_one(node))
    for (const Node* user : users)
      if (is_all_manual(user->sharding) && !starts_manual(*user)) return become_manual(node, *user);
  if (!may_be_tiled(node)) {
    for (const Node* user : users)
      if (!starts_manual(*user) && enter_region(node, *user)) return true;
    return false;
  }
  if (const Node* generator = generator_of_seed(node); generator && level > 0) {
    const Sharding whole = region_of(*generator, node.rank()).value_or(Sharding::replicated());
    if (node.sharding && *node.sharding == whole) return false;
    set_sharding(node, whole, *generator);
    return true;
  }
  bool changed = infer_from_elements(node, level);
  for (Node* user : users)
    if (!is_array_element(*user, node))
      if (const auto candidate = suggestion_of_user(*user, first_position(*user, node), level))
        changed |= improve(node, *candidate, *user, level, false);
  for (const Node* user : users)
    if (!node.sharding && !may_be_tiled(*user) && !starts_manual(*user))
      changed |= enter_region(node, *user);
  return changed;
}

// What the user gave changes in its open dims, once partial shardings may merge.
bool Propagation::refine_open(Node& node, int level, bool from_users) {
  if (!options_.spmd || level < 1 || !node.sharding || node.sharding->is_tuple()) return false;
  const std::vector<bool>& open = node.sharding->open();
  if (std::find(open.begin(), open.end(), true) == open.end()) return false;
  bool changed = false;
  Node* conversion = conversion_after(node);
  if (!from_users) {
    for (const ShardingProposal& p : proposals_of_operands(node, mode(level))) {
      const Node& via = p.operand < 0 ? node : *node.operand(p.operand);
      changed |= conversion ? refine_with_conversion(node, *conversion, p.sharding, via)
                            : improve(node, p.sharding, via, level, false);
    }
    return changed;
  }
  const Node& read = conversion ? *conversion : node;
  const std::vector<Node*>& users = read.users();
  for (const Node* user : users) {
    const auto candidate = suggestion_of_user(*user, first_position(*user, read), level);
    if (!candidate) continue;
    changed |= conversion ? refine_with_conversion(node, *conversion, *candidate, *user)
                          : improve(node, *candidate, *user, level, false);
  }
  return changed;
}

// An annotation and the start (end) of a manual region behind it are two views of one layout: what
// the open dims get, both get, or none.
bool Propagation::refine_with_conversion(Node& annotation, Node& conversion, const Sharding& wanted,
                                         const Node& via) {
  if (!wanted.is_tiled() || !wanted.order() || !conversion.sharding) return false;
  const std::vector<bool> open = annotation.sharding->open();
  const auto refined = [&](const Sharding& current) -> std::optional<Sharding> {
    const bool same_order = !current.order() || current.order() == wanted.order();
    if (!current.is_tiled() || !same_order) return std::nullopt;
    std::vector<Digits> dims(open.size());
    Digits all;
    for (size_t d = 0; d < open.size(); ++d) {
      if (open[d]) dims[d] = wanted.dim(static_cast<int64_t>(d));
      all.insert(all.end(), dims[d].begin(), dims[d].end());
    }
    if (!disjoint(all, current.manual_digits())) return std::nullopt;
    const Sharding part = Sharding::tiled(wanted.order(), std::move(dims), current.manual_digits());
    auto both = merge(current, part, static_cast<int64_t>(open.size()));
    if (!both || both->num_tiles() <= current.num_tiles()) return std::nullopt;
    return both;
  };
  const auto before = refined(*annotation.sharding);
  const auto after = refined(*conversion.sharding);
  if (!before || !after) return false;
  set_sharding(annotation, before->with_open(open), via);
  set_sharding(conversion, *after, annotation);
  return true;
}

}  // namespace gspmd
