#include <algorithm>
#include <map>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/moves/reshard.h"
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
                           const Windows& windows, const Pending& kept) {
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
    if (const auto as = windows.counted_as(p.operands.size())) s = *as;
    // Elementwise ops are done where the result is wanted with what every device has anyway.
    if (node.op().has(kElementwise) && !equivalent(s, p.result) && spmd.is_at_hand(*operand))
      s = Sharding::replicated();
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

// The loops that share no array with those of the first result, and the arrays of each group of
// such loops: carries of a scan that do not meet. Their digits are chosen apart, so that one mesh
// axis may split several of them. Loops that are no pass have none and join nothing.
struct Apart {
  std::vector<size_t> factors, operands, results;
};

std::vector<Apart> loops_apart(const FactorRule& rule) {
  const size_t count = rule.factors.size();
  if (rule.results.size() < 2) return {};
  std::vector<size_t> group(count);
  std::iota(group.begin(), group.end(), size_t(0));
  const auto passes = [&](int64_t f) {
    return f >= 0 && rule.factors[static_cast<size_t>(f)].kind == FactorKind::pass;
  };
  const auto first_pass = [&](const std::vector<int64_t>& dims) -> std::optional<size_t> {
    const auto found = std::find_if(dims.begin(), dims.end(), passes);
    return found == dims.end() ? std::nullopt : std::optional(static_cast<size_t>(*found));
  };
  for (const auto* sides : {&rule.operands, &rule.results})
    for (const std::vector<int64_t>& dims : *sides)
      for (const int64_t f : dims) {
        if (!passes(f)) continue;
        const size_t from = group[static_cast<size_t>(f)], to = group[*first_pass(dims)];
        std::replace(group.begin(), group.end(), from, to);
      }
  const auto first = first_pass(rule.results[0]);
  std::map<size_t, Apart> apart;
  for (size_t f = 0; f < count; ++f)
    if (passes(static_cast<int64_t>(f)) && (!first || group[f] != group[*first]))
      apart[group[f]].factors.push_back(f);
  const auto add = [&](const std::vector<std::vector<int64_t>>& arrays,
                       std::vector<size_t> Apart::*list) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto f = first_pass(arrays[i]);
      const auto found = f ? apart.find(group[*f]) : apart.end();
      if (found != apart.end()) (found->second.*list).push_back(i);
    }
  };
  add(rule.operands, &Apart::operands);
  add(rule.results, &Apart::results);
  std::vector<Apart> result;
  for (auto& [g, loops] : apart) result.push_back(std::move(loops));
  return result;
}

// Digits of such loops: as one of their arrays is held or wanted, whichever sends least.
FactorDigits spread_apart(SpmdPartitioner& spmd, const Node& node, const FactorRule& rule,
                          DeviceOrder order, const Apart& apart) {
  const Sharding completed = spmd.sharding(node);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  const auto wanted = [&](size_t leaf) {
    return completed.is_tuple() ? completed.elements().at(leaf) : completed;
  };
  std::vector<FactorDigits> candidates{FactorDigits(rule.factors.size())};
  const auto add = [&](const std::vector<int64_t>& dims, const Sharding& s) {
    if (!s.is_tiled() || s.order() != order) return;
    FactorDigits digits(rule.factors.size());
    for (size_t d = 0; d < dims.size(); ++d)
      if (std::count(apart.factors.begin(), apart.factors.end(), static_cast<size_t>(dims[d])))
        digits[static_cast<size_t>(dims[d])] = s.dim(static_cast<int64_t>(d));
    candidates.push_back(std::move(digits));
  };
  for (const size_t leaf : apart.results) add(rule.results[leaf], wanted(leaf));
  for (const size_t i : apart.operands)
    add(rule.operands[i], spmd.sharding(*node.operand(static_cast<int64_t>(i))));
  const auto cost = [&](const FactorDigits& digits) {
    int64_t bytes = 0;
    const auto move = [&](const Shape& shape, const Sharding& from, const Sharding& to) {
      bytes = saturating_add(bytes, plan_reshard(shape, from, to, spmd.num_devices()).cost.bytes);
    };
    for (const size_t i : apart.operands) {
      const Node& x = *node.operand(static_cast<int64_t>(i));
      move(x.shape, spmd.sharding(x), project(order, rule.operands[i], digits));
    }
    for (const size_t leaf : apart.results)
      move(shapes[leaf], project(order, rule.results[leaf], digits), wanted(leaf));
    return bytes;
  };
  // Of those that send as little the first that splits.
  const FactorDigits* best = nullptr;
  int64_t least = 0;
  for (size_t c = candidates.size(); c-- > 0;) {
    const int64_t bytes = cost(candidates[c]);
    if (best && (bytes > least || (bytes == least && c == 0))) continue;
    best = &candidates[c];
    least = bytes;
  }
  return *best;
}

// Whether loops that share no array may be looked at one by one: nothing else has taken digits.
bool may_split_apart(const SpreadProblem& p) {
  return p.taken.empty() && p.rule->results.size() > 1 && p.rule->windows.empty();
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

// A copy is its operand in the layout that is wanted, so that other readers of the operand find it
// there too. nullopt: partial sums that it may keep, or no plain layouts.
std::optional<Partitioned> partition_copy(SpmdPartitioner& spmd, Node& node) {
  const OpInfo& op = node.op();
  if (!op.has(kElementwise) || !op.has(kDataMovement) || node.operands().size() != 1 ||
      spmd.keeps_unreduced(node, 0))
    return std::nullopt;
  const Sharding want = spmd.sharding(node), have = spmd.sharding(*node.operand(0));
  const auto plain = [](const Sharding& s) {
    return s.is_tiled() && s.manual_digits().empty() && s.unreduced().empty();
  };
  if (!plain(want) || !plain(have)) return std::nullopt;
  const Sharding layout = spmd.is_only_cut(node, have) ? have : want;
  Node* const local = spmd.reshard(node.operand(0), layout);
  return Partitioned{spmd.emit(node.opcode(), local->shape, {local}, node.attrs), layout};
}

}  // namespace

Partitioned partition_by_factors(SpmdPartitioner& spmd, Node& node) {
  if (auto copy = partition_copy(spmd, node)) return std::move(*copy);
  FactorRule rule = node.op().factors(node);
  Windows windows(spmd, node, rule);
  const Pending kept = unreduced_through(spmd, node);
  SpreadProblem problem = make_problem(spmd, node, rule, windows, kept);
  problem.exchanged = windows.opened();
  problem.exchanged.resize(rule.factors.size());
  const std::vector<Apart> apart =
      may_split_apart(problem) ? loops_apart(rule) : std::vector<Apart>{};
  for (const Apart& loops : apart)
    for (const size_t i : loops.operands) {
      problem.operands[i] = Sharding::replicated();
      problem.have[i] = problem.near[i] = FactorDigits(rule.factors.size());
    }
  FactorDigits spread = choose_spread(problem);
  for (const Apart& loops : apart) {
    const FactorDigits own = spread_apart(spmd, node, rule, problem.order, loops);
    for (const size_t f : loops.factors) spread[f] = own[f];
  }
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
