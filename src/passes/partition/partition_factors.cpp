#include <memory>

#include "gspmd/base/error.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/ops/builders.h"
#include "passes/partition/factor_sharding_problem.h"
#include "passes/partition/loops_apart.h"
#include "passes/partition/manual.h"
#include "passes/partition/some_devices.h"
#include "passes/partition/spmd_partitioner.h"
#include "passes/partition/window_exchange.h"
#include "passes/simplify/simplify_rules.h"

namespace gspmd {
namespace {

// Whether node(sum of partials) has the bits of the sum of node(partial), the sign of zeros
// included: partials that cancel make +0, of which the negative is -0; and narrower partials would
// round before they are added.
bool keeps_bits_of_sums(const Node& node) {
  const DType dtype = node.shape.dtype;
  if (node.is(Opcode::convert))
    return is_floating(dtype) && dtype_size(dtype) >= dtype_size(node.operand(0)->shape.dtype);
  if (is_integer(dtype) || !node.op().has(kElementwise)) return true;
  if (node.is(Opcode::negate)) return false;
  for (Node* operand : node.operands()) {
    const std::optional<double> factor = is_uniform(*operand) ? splat_value(operand) : std::nullopt;
    if (factor && !node.op().has(kLinear) && !(*factor > 0)) return false;
  }
  return true;
}

// The unreduced digits that `node` may leave unreduced: it is linear and the only reader of each
// unreduced operand (docs/spec/partitioning.md 5.1). Empty where the sums must be done first.
Pending unreduced_through(SpmdPartitioner& spmd, const Node& node) {
  const bool linear = node.op().has(kLinear);
  if (!linear && !node.op().has(kLinearInEach)) return {};
  if (!keeps_bits_of_sums(node)) return {};
  std::optional<Pending> common;
  int64_t elements = 0;  // of what is unreduced
  for (size_t i = 0; i < node.operands().size(); ++i) {
    Node* operand = node.operands()[i];
    if (!linear && is_uniform(*operand)) continue;
    if (operand->shape.is_tuple || !spmd.keeps_unreduced(node, static_cast<int64_t>(i))) return {};
    const Sharding held = spmd.held(operand).sharding;
    const std::vector<Unreduced>& u = held.unreduced();
    if (common && !linear) return {};  // a product of two partial sums is no partial product
    if (common && (common->sums != u || common->order != held.order())) return {};
    common = {u, held.order()};
    elements += operand->shape.elements_count();
  }
  // What is made larger, such as a row's sum that is broadcast, is summed while it is small.
  if (!common || leaf_shapes(node.shape).at(0).elements_count() > elements) return {};
  for (const Unreduced& u : common->sums)
    if (u.combiner != Combiner::sum) return {};
  return *common;
}

NodePart part_of(const Node& node, const WindowExchange& windows,
                 const std::vector<Node*>& operands, const std::vector<Shape>& results) {
  NodePart part{{}, {}, results};
  for (const Node* operand : operands) part.operands.push_back(operand->shape);
  if (!operands.empty())
    for (int64_t d = 0; d < node.operand(0)->rank(); ++d) part.dims.push_back(windows.part_of(d));
  return part;
}

// The value 0, 1, -inf ... with which masked elements do not change a reduction.
Node* identity_of(SpmdPartitioner& spmd, const FactorRule& rule, DType dtype) {
  for (const Factor& factor : rule.factors)
    if (factor.kind == FactorKind::reduction)
      return hlo::scalar(spmd.local(), dtype, neutral_contribution(factor.combiner, dtype));
  internal_error("partition: no reduction factor to mask for");
}

// Dims of operand i whose shards are uneven along a summed loop: their tails must not be summed.
std::vector<int64_t> dims_to_mask(const FactorRule& rule, const std::vector<int64_t>& dims,
                                  const FactorDigits& spread) {
  std::vector<int64_t> masked;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0 && rule.factors[static_cast<size_t>(dims[d])].kind == FactorKind::reduction &&
        !spread[static_cast<size_t>(dims[d])].empty())
      masked.push_back(static_cast<int64_t>(d));
  return masked;
}

Partitioned join_initial(SpmdPartitioner& spmd, Node& node, const Partitioned& partial,
                         size_t operand) {
  const Sharding reduced = partial.sharding.with_unreduced({});
  Node* sum = spmd.reshard(partial, node.shape, reduced);
  Node* value = spmd.reshard(node.operands()[operand], Sharding::replicated());
  const Combiner combiner = partial.sharding.unreduced().at(0).combiner;
  Node* joined =
      hlo::binary(combiner_opcode(combiner), sum, hlo::broadcast(value, sum->dims(), {}));
  return {joined, reduced};
}

std::vector<Unreduced> pending_sums(const FactorRule& rule, const FactorDigits& spread,
                                    std::vector<Unreduced> kept) {
  for (size_t f = 0; f < spread.size(); ++f)
    if (rule.factors[f].kind == FactorKind::reduction && !spread[f].empty()) {
      const Combiner combiner = rule.factors[f].combiner;
      if (!kept.empty() && kept.back().combiner == combiner)
        kept.back().digits = concat(kept.back().digits, spread[f]);
      else
        kept.push_back({spread[f], combiner});
    }
  return kept;
}

// The node itself on parts.
Node* emit_on_parts(SpmdPartitioner& spmd, const Node& node, const std::vector<Node*>& operands,
                    const NodePart& part) {
  std::vector<Computation*> called;
  if (node.op().called_on_part)
    called = node.op().called_on_part(spmd, node, part);
  else
    for (const Computation* c : node.called) called.push_back(spmd.local_computation(*c));
  return spmd.emit(
      node.opcode(), node.shape.is_tuple ? Shape::tuple(part.results) : part.results.at(0),
      operands, node.op().on_part ? node.op().on_part(node, part) : node.attrs, std::move(called));
}

// The loop nest of a node, its windows opened, and how it is spread.
struct ShardedNest {
  ShardedNest(SpmdPartitioner& spmd, Node& node, const Pending& kept, WindowSums sums)
      : rule(node.op().factors(node)),
        windows(spmd, node, rule, sums),
        problem(factor_sharding_problem(spmd, node, rule, kept, &windows)) {
    const std::vector<LoopsApart> apart = loops_apart(problem);
    for (const LoopsApart& loops : apart) leave_out(loops, problem);
    add_prices(spmd, node, kept, problem);
    problem.exchanged = windows.opened();
    problem.exchanged.resize(rule.factors.size());
    problem.fetch = [this](size_t i, size_t d, int64_t tiles) {
      return windows.fetched(i, static_cast<int64_t>(d), tiles);
    };
    found = choose_factor_sharding(problem, spmd.factor_shardings());
    for (const LoopsApart& loops : apart) {
      const FactorDigits own = spread_apart(spmd, problem, loops);
      for (const size_t f : loops.factors) found.spread[f] = own[f];
    }
  }
  ShardedNest(const ShardedNest&) = delete;
  ShardedNest& operator=(const ShardedNest&) = delete;

  FactorRule rule;
  WindowExchange windows;
  FactorShardingProblem problem;
  CheapestFactorSharding found;
};

// Element by element of operands that are all held as the result is wanted: nothing is chosen.
// nullopt for anything else.
std::optional<Partitioned> partition_alike(SpmdPartitioner& spmd, Node& node) {
  const OpInfo& op = node.op();
  if (!op.has(kElementwise) || op.on_part || op.called_on_part || !node.called.empty() ||
      node.operands().empty() || node.shape.is_tuple)
    return std::nullopt;
  const Sharding& want = spmd.sharding(node);
  if (!is_plain(want) || is_partial(want, spmd.num_devices())) return std::nullopt;
  for (Node* operand : node.operands()) {
    if (operand->shape.is_tuple || operand->dims() != node.dims()) return std::nullopt;
    const Sharding& have = spmd.sharding(*operand);
    if (have.order() != want.order() || !is_plain(have) || !equivalent(have, want) ||
        !spmd.held(operand).sharding.unreduced().empty())
      return std::nullopt;
  }
  const Sharding layout = want;  // resharding may move what `want` refers to
  std::vector<Node*> operands;
  for (Node* operand : node.operands()) operands.push_back(spmd.reshard(operand, layout));
  return Partitioned{
      spmd.emit(node.opcode(), local_shape(node.shape, layout), std::move(operands), node.attrs),
      layout};
}

// A copy is its operand in the layout that is wanted, so that other readers of the operand find it
// there too. nullopt: partial sums that it may keep, or no plain layouts.
std::optional<Partitioned> partition_copy(SpmdPartitioner& spmd, Node& node) {
  const OpInfo& op = node.op();
  if (!op.has(kElementwise) || !op.has(kDataMovement) || node.operands().size() != 1 ||
      spmd.keeps_unreduced(node, 0))
    return std::nullopt;
  const Sharding want = spmd.sharding(node), have = spmd.sharding(*node.operand(0));
  if (!is_plain(want) || !is_plain(have)) return std::nullopt;
  const Sharding layout = spmd.is_only_cut(node, have) ? have : want;
  Node* const local = spmd.reshard(node.operand(0), layout);
  return Partitioned{spmd.emit(node.opcode(), local->shape, {local}, node.attrs), layout};
}

}  // namespace

Partitioned partition_by_factors(SpmdPartitioner& spmd, Node& node) {
  if (auto alike = partition_alike(spmd, node)) return std::move(*alike);
  if (auto copy = partition_copy(spmd, node)) return std::move(*copy);
  const Pending kept = unreduced_through(spmd, node);
  auto nest = std::make_unique<ShardedNest>(spmd, node, kept, WindowSums::of_all);
  if (nest->problem.one_of_few &&
      nest->windows.sums_alike()) {  // or each part of the result with the windows that it reads
    auto other = std::make_unique<ShardedNest>(spmd, node, kept, WindowSums::of_whole_dims);
    if (other->found.cost.bytes < nest->found.cost.bytes) nest = std::move(other);
  }
  FactorRule& rule = nest->rule;
  WindowExchange& windows = nest->windows;
  const FactorShardingProblem& problem = nest->problem;
  FactorDigits& spread = nest->found.spread;
  windows.spread(problem.order, spread, !kept.sums.empty());
  const Digits manual = manual_of(spmd, node);

  const std::vector<size_t> initial = initial_values(rule, spread, node);
  std::vector<Node*> operands;
  bool on_some = false;  // whether an operand means something on some of the devices only
  for (size_t i = 0; i < node.operands().size(); ++i) {
    Node* operand = windows.source(i);
    if (std::count(initial.begin(), initial.end(), i)) {
      // Every device sums from the identity; the initial value joins once, after the sum.
      operands.push_back(identity_of(spmd, rule, operand->shape.dtype));
      continue;
    }
    const Sharding layout = windows.layout(
        i, with_manual(project(problem.order, rule.operands[i], spread), problem.order, manual));
    on_some = on_some || is_partial(layout, spmd.num_devices());
    const bool uniform = !kept.sums.empty() && !node.op().has(kLinear) && is_uniform(*operand);
    Node* local =
        spmd.reshard(operand, uniform ? layout : with_unreduced(layout, problem.order, kept.sums));
    const std::vector<int64_t> masked = dims_to_mask(rule, rule.operands[i], spread);
    if (!masked.empty())
      local = spmd.mask_tail(local, operand->shape, layout, masked,
                             identity_of(spmd, rule, operand->shape.dtype));
    operands.push_back(windows.fetch(i, local));
  }

  std::vector<Sharding> results;
  std::vector<Shape> shapes = leaf_shapes(node.shape);
  const std::vector<Unreduced> sums = pending_sums(rule, spread, kept.sums);
  for (size_t leaf = 0; leaf < shapes.size(); ++leaf) {
    const Sharding s =
        with_manual(project(problem.order, rule.results.at(leaf), spread), problem.order, manual);
    shapes[leaf] = local_shape(shapes[leaf], s);
    results.push_back(with_unreduced(s, problem.order, sums));
    if (on_some && results.back().is_replicated())
      results.back() = Sharding::maximal(problem.order->device(0));
  }
  Node* local = windows.emit(operands);
  if (!local) local = emit_on_parts(spmd, node, operands, part_of(node, windows, operands, shapes));
  if (!initial.empty()) return join_initial(spmd, node, {local, results.at(0)}, initial.at(0));
  return {local, node.shape.is_tuple ? Sharding::tuple(results) : results.at(0)};
}

}  // namespace gspmd
