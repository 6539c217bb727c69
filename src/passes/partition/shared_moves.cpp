#include "passes/partition/shared_moves.h"

#include <algorithm>

#include "passes/graph/trip_count.h"
#include "passes/partition/factor_sharding_memo.h"
#include "passes/partition/factor_sharding_problem.h"
#include "passes/partition/manual.h"

namespace gspmd {
namespace {

// A sum of two products of each of which nothing else is read goes on; how far this is looked at.
constexpr int kDepth = 8;
constexpr int64_t kFewSums = 4;
// What more nodes read is moved for each as it comes.
constexpr size_t kMostReaders = 64;

bool is_product(const Node& node) {
  return node.op().has(kLinearInEach) && !node.op().has(kElementwise) && node.op().factors &&
         !node.shape.is_tuple;
}

Node* single_user(const Node& node) {
  return node.users().size() == 1 && !node.is_root() ? node.users()[0] : nullptr;
}

bool is_sum_of_some(const Node& node) {
  return node.op().has(kLinear) && node.op().has(kElementwise) && node.operands().size() > 1;
}

int64_t count_addends(const Node& node, int depth) {
  if (!is_sum_of_some(node) || depth == 0) return 1;
  int64_t count = 0;
  for (const Node* operand : node.operands()) count += count_addends(*operand, depth - 1);
  return count;
}

// Element i of the state of a loop, read in its body; -1: anything else.
int64_t state_read(const Node& node) {
  const bool reads = node.is(Opcode::get_tuple_element) && node.operand(0)->is(Opcode::parameter);
  const Node* root = node.parent().root();
  const bool carried =
      reads && root && root->is(Opcode::tuple) && root->shape == node.operand(0)->shape;
  return carried ? node.attrs.index : -1;
}

bool is_invariant(const Node& node, int depth) {
  const int64_t i = state_read(node);
  if (i >= 0) {
    const Node* next = node.parent().root()->operand(i);
    return next->is(Opcode::get_tuple_element) && next->operand(0) == node.operand(0) &&
           next->attrs.index == i;
  }
  if (depth == 0 || node.operands().empty() || node.op().has(kSideEffect)) return false;
  return std::all_of(node.operands().begin(), node.operands().end(), [&](const Node* operand) {
    return operand->op().has(kConstantLike) || is_invariant(*operand, depth - 1);
  });
}

// What a loop adds to its state: the sum is made behind it.
bool is_accumulated(const Node& sum) {
  const Node* root = sum.parent().root();
  const Node* user = single_user(sum);
  if (!user || user != root || !root->is(Opcode::tuple)) return false;
  for (const Node* operand : sum.operands()) {
    const int64_t i = state_read(*operand);
    if (i >= 0 && root->operand(i) == &sum) return true;
  }
  return false;
}

// Whether the layouts of this node and of what it reads can be told before they are made.
bool is_plain(SpmdPartitioner& spmd, Node& node) {
  const auto plain = [&](const Node& value) {
    const Sharding& s = spmd.sharding(value);
    return s.is_tiled() && s.manual_digits().empty();
  };
  return plain(node) && std::all_of(node.operands().begin(), node.operands().end(),
                                    [&](const Node* operand) { return plain(*operand); });
}

}  // namespace

bool SharedMoves::has_few_sums(const Module& module) {
  if (few_sums_) return *few_sums_;
  int64_t count = 0;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (count <= kFewSums && !node->op().has(kElementwise) && !node->op().has(kDataMovement) &&
          node->op().factors && has_sums(node->op().factors(*node)))
        ++count;
  few_sums_ = count <= kFewSums;
  return *few_sums_;
}

int64_t SharedMoves::runs(const Computation& computation) {
  if (!runs_) runs_ = run_counts(computation.module());
  const auto found = runs_->find(&computation);
  return found == runs_->end() ? 1 : std::max<int64_t>(1, found->second);
}

int64_t SharedMoves::runs_of_move(const Node& value) {
  return is_invariant(value, kDepth) ? runs(value.parent()) : 1;
}

const SharedMoves::First& SharedMoves::first(SpmdPartitioner& spmd, Node& node) {
  const auto [found, fresh] = firsts_.try_emplace(node.id());
  First& first = found->second;
  if (!fresh) return first;
  first.rule = node.op().factors(node);
  FactorShardingProblem problem = factor_sharding_problem(spmd, node, first.rule, {});
  problem.exchanged.resize(first.rule.factors.size());
  first.spread = factor_sharding_by_cases(problem);
  for (const auto& dims : first.rule.operands)
    first.operands.push_back(project(problem.order, dims, first.spread));
  std::vector<Unreduced> sums;
  for (size_t f = 0; f < first.spread.size(); ++f)
    if (first.rule.factors[f].kind == FactorKind::reduction && !first.spread[f].empty())
      sums.push_back({first.spread[f], first.rule.factors[f].combiner});
  first.result = with_unreduced(project(problem.order, first.rule.results[0], first.spread),
                                problem.order, sums);
  return first;
}

// Whether all that read the value in this layout by cases send no more together, where the first
// has it moved for all, than each on its own.
bool SharedMoves::stays(SpmdPartitioner& spmd, Node& value, const Sharding& layout,
                        const std::vector<Node*>& readers) {
  int64_t together = 0, alone = 0;
  for (size_t r = 0; r < readers.size(); ++r) {
    Node& reader = *readers[r];
    FactorShardingProblem problem =
        factor_sharding_problem(spmd, reader, first(spmd, reader).rule, {});
    problem.exchanged.resize(problem.rule->factors.size());
    problem.held = problem.operands;
    problem.known.resize(problem.held.size());
    problem.sends_nothing.resize(problem.held.size());
    problem.repeats.assign(problem.held.size(), 1);
    const CheapestFactorSharding own = choose_among_sums(problem, spmd.factor_shardings());
    if (!own.priced) return false;
    alone = saturating_add(alone, own.cost.bytes);
    for (size_t i = 0; i < problem.held.size(); ++i)
      if (r > 0 && reader.operands()[i] == &value) problem.known[i].push_back(layout);
    together = saturating_add(
        together,
        r > 0 ? choose_among_sums(problem, spmd.factor_shardings()).cost.bytes : own.first.bytes);
  }
  return together <= alone;
}

std::vector<Sharding> SharedMoves::layouts(SpmdPartitioner& spmd, Node& value, const Node& reader) {
  const auto [found, fresh] = layouts_.try_emplace({value.id(), reader.backward});
  if (!fresh || value.users().size() > kMostReaders) return found->second;
  std::vector<std::pair<Sharding, std::vector<Node*>>> groups;
  std::vector<Node*> seen;
  for (Node* user : value.users()) {
    if (user->backward != reader.backward || !is_product(*user) || !is_plain(spmd, *user) ||
        std::find(seen.begin(), seen.end(), user) != seen.end())
      continue;
    seen.push_back(user);
    const First& way = first(spmd, *user);
    for (size_t i = 0; i < user->operands().size(); ++i) {
      if (user->operands()[i] != &value) continue;
      const Sharding& layout = way.operands[i];
      if (equivalent(layout, spmd.sharding(value))) continue;
      const auto same = [&](const auto& group) { return equivalent(group.first, layout); };
      auto group = std::find_if(groups.begin(), groups.end(), same);
      if (group == groups.end()) group = groups.insert(groups.end(), {layout, {}});
      group->second.push_back(user);
      break;
    }
  }
  std::vector<Sharding> shared;
  for (const auto& [layout, readers] : groups)
    if (readers.size() > 1 && stays(spmd, value, layout, readers)) shared.push_back(layout);
  return layouts_[{value.id(), reader.backward}] = std::move(shared);
}

// The layout of partial sums in which a node by cases leaves its value; nullptr: whole.
const Sharding* SharedMoves::left_unreduced(SpmdPartitioner& spmd, Node& node) {
  if (is_sum_of_some(node)) {
    const Sharding* common = nullptr;
    for (Node* operand : node.operands()) {
      const Sharding* left = single_user(*operand) ? left_unreduced(spmd, *operand) : nullptr;
      if (!left || (common && !(*common == *left))) return nullptr;
      common = left;
    }
    return common;
  }
  if (!is_product(node) || !is_plain(spmd, node)) return nullptr;
  const Sharding& result = first(spmd, node).result;
  return result.unreduced().empty() ? nullptr : &result;
}

std::optional<std::pair<Sharding, int64_t>> SharedMoves::sum_with_others(SpmdPartitioner& spmd,
                                                                         Node& node) {
  if (!is_product(node) || !is_plain(spmd, node)) return std::nullopt;
  Node* const sum = single_user(node);
  if (!sum || !is_sum_of_some(*sum)) return std::nullopt;
  const Sharding& mine = first(spmd, node).result;
  if (mine.unreduced().empty()) return std::nullopt;
  if (is_accumulated(*sum)) return std::pair{mine, runs(node.parent())};
  const Sharding* common = left_unreduced(spmd, *sum);
  if (!common) return std::nullopt;
  const Node* top = sum;
  for (const Node* above = single_user(*top); above && is_sum_of_some(*above);
       above = single_user(*top)) {
    if (!left_unreduced(spmd, const_cast<Node&>(*above))) break;
    top = above;
  }
  return std::pair{mine, count_addends(*top, kDepth)};
}

}  // namespace gspmd
