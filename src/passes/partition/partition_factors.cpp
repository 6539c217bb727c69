#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "passes/partition/manual.h"
#include "passes/partition/placement.h"
#include "passes/partition/spmd_partitioner.h"
#include "passes/partition/spread.h"
#include "passes/partition/windows.h"
#include "passes/simplify/simplify_rules.h"

namespace gspmd {
namespace {

// A value that is the same number everywhere: constants and broadcasts of scalar constants.
bool is_uniform(const Node& node) {
  if (node.rank() == 0) return node.op().has(kConstantLike);
  return node.is(Opcode::broadcast) && is_uniform(*node.operand(0));
}

// Partial sums that stay, and the device order of their digits.
struct Pending {
  std::vector<Unreduced> sums;
  DeviceOrder order = nullptr;
};

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

NodePart part_of(const Node& node, const Windows& windows, const std::vector<Node*>& operands,
                 const std::vector<Shape>& results) {
  NodePart part{{}, {}, results};
  for (const Node* operand : operands) part.operands.push_back(operand->shape);
  if (!operands.empty())
    for (int64_t d = 0; d < node.operand(0)->rank(); ++d) part.dims.push_back(windows.part_of(d));
  return part;
}

Sharding home(SpmdPartitioner& spmd, Node& node) {
  const Sharding& completed = spmd.sharding(node);
  if (!completed.is_tuple()) return completed;
  return completed.elements().empty() ? Sharding::replicated() : completed.elements()[0];
}

// The value 0, 1, -inf ... with which masked elements do not change a reduction.
Node* identity_of(SpmdPartitioner& spmd, const FactorRule& rule, DType dtype) {
  for (const Factor& factor : rule.factors)
    if (factor.kind == FactorKind::reduction)
      return hlo::scalar(spmd.local(), dtype, neutral_contribution(factor.combiner, dtype));
  internal_error("partition: no reduction factor to mask for");
}

// The digits that are manual in the region where the node stands.
Digits manual_of(SpmdPartitioner& spmd, Node& node) {
  const Sharding result = home(spmd, node);
  return result.is_tiled() ? result.manual_digits() : Digits{};
}

// `have`, and of operands in another order the digits that a permute of their shards gives them:
// those of an operand that cuts the loop into as many parts.
std::vector<FactorDigits> nearly_held(const SpreadProblem& p) {
  std::vector<FactorDigits> near = p.have;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const DeviceOrder order = p.operands[i].order();
    if (order == p.order || !order || order->count != p.order->count) continue;
    near[i] = factors_of(*p.rule, p.rule->operands[i], p.operands[i]);
    for (size_t f = 0; f < near[i].size(); ++f)
      for (const FactorDigits& held : p.have)
        if (!held[f].empty() && tile_count(held[f]) == tile_count(near[i][f])) near[i][f] = held[f];
  }
  return near;
}

SpreadProblem make_problem(SpmdPartitioner& spmd, Node& node, const FactorRule& rule,
                           const Pending& kept) {
  SpreadProblem p;
  p.node = &node;
  p.rule = &rule;
  p.num_devices = spmd.num_devices();
  p.result = home(spmd, node);
  p.order = kept.order ? kept.order : p.result.order();
  if (!p.result.is_tiled()) p.result = Sharding::replicated();
  p.taken = manual_of(spmd, node);
  p.result = without_manual(p.result);
  for (Node* operand : node.operands()) {
    Sharding s = kept.sums.empty() ? spmd.sharding(*operand) : spmd.held(operand).sharding;
    if (s.is_tiled() && !s.unreduced().empty()) s = s.with_unreduced({});
    if (s.is_tuple()) user_error("partition: {} reads a tuple {}", node.name(), operand->name());
    if (!p.order) p.order = s.order();
    p.operands.push_back(s.is_tiled() ? without_manual(s) : Sharding::replicated());
  }
  if (!p.order) p.order = iota_order(spmd.num_devices());
  for (size_t i = 0; i < p.operands.size(); ++i)
    p.have.push_back(p.operands[i].order() == p.order
                         ? factors_of(rule, rule.operands[i], p.operands[i])
                         : FactorDigits(rule.factors.size()));
  p.near = nearly_held(p);
  p.want = factors_of(rule, rule.results[0], p.result);
  for (const Unreduced& u : kept.sums) p.taken = concat(p.taken, u.digits);
  return p;
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

// Scalar operands without the summed loop that others have, when that loop is spread: initial
// values. One that is the identity already needs no care.
std::vector<size_t> initial_values(const FactorRule& rule, const FactorDigits& spread,
                                   const Node& node) {
  std::vector<size_t> initial;
  if (!rule.scalars_start) return initial;
  for (size_t f = 0; f < spread.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::reduction || spread[f].empty()) continue;
    for (size_t i = 0; i < node.operands().size(); ++i) {
      const Node& operand = *node.operands()[i];
      if (operand.rank() != 0 || node.operand(0)->rank() == 0) continue;
      const DType dtype = operand.shape.dtype;
      const bool identity =
          operand.is(Opcode::constant) && !is_complex(dtype) &&
          operand.attrs.literal.at(0) == combiner_identity(rule.factors[f].combiner, dtype);
      if (!identity && !std::count(initial.begin(), initial.end(), i)) initial.push_back(i);
    }
  }
  return initial;
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

}  // namespace

Partitioned partition_by_factors(SpmdPartitioner& spmd, Node& node) {
  FactorRule rule = node.op().factors(node);
  Windows windows(spmd, node, rule);
  const Pending kept = unreduced_through(spmd, node);
  SpreadProblem problem = make_problem(spmd, node, rule, kept);
  problem.exchanged = windows.opened();
  problem.exchanged.resize(rule.factors.size());
  FactorDigits spread = choose_spread(problem);
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
