#include "ops/collective/collective.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/collective/gradient.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/control/control.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

void check_group_lists(const Node& node, const std::vector<std::vector<int64_t>>& lists) {
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& list : lists) {
    if (list.size() != lists.front().size() && !node.is(Opcode::all_reduce) &&
        !node.is(Opcode::all_reduce_start) && !node.is(Opcode::collective_broadcast))
      user_error("{}: replica groups of {} and {} devices; all groups need the same size",
                 opcode_name(node.opcode()), lists.front().size(), list.size());
    all.insert(all.end(), list.begin(), list.end());
  }
  std::sort(all.begin(), all.end());
  if (!all.empty() && all.front() < 0)
    user_error("{}: device {} in replica_groups is negative", opcode_name(node.opcode()),
               all.front());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice != all.end())
    user_error("{}: device {} is twice in replica_groups", opcode_name(node.opcode()), *twice);
}

void check_groups(const Node& node) {
  const ReplicaGroups& groups = node.attrs.replica_groups;
  check_group_lists(node, groups.lists);
  if (groups.num_groups == 0) return;
  int64_t product = 1;
  for (const int64_t d : groups.reshape) product = d < 1 ? 0 : saturating_multiply(product, d);
  const bool sizes = groups.num_groups > 0 && groups.group_size > 0 && product > 0 &&
                     saturating_multiply(groups.num_groups, groups.group_size) == product;
  if (!sizes)
    user_error("{}: replica_groups [{},{}]<=[{}] do not hold the same number of devices",
               opcode_name(node.opcode()), groups.num_groups, groups.group_size,
               fmt::join(groups.reshape, ","));
  if (groups.transpose.empty()) return;
  if (groups.transpose.size() != groups.reshape.size())
    user_error("{}: replica_groups T({}) permutes {} dims, there are {}",
               opcode_name(node.opcode()), fmt::join(groups.transpose, ","),
               groups.transpose.size(), groups.reshape.size());
  check_dim_list(node, "replica_groups T", groups.transpose,
                 static_cast<int64_t>(groups.reshape.size()));
}

int64_t devices_per_group(const Node& node) {
  check_groups(node);
  const int64_t size = group_size(node.attrs.replica_groups, node.parent().module().num_partitions);
  if (size < 1) user_error("{}: a replica group is empty", opcode_name(node.opcode()));
  return size;
}

// As devices_per_group, for operand i whose dim `dim` becomes that many times as large (or small).
// Where neither groups nor the module say how many devices there are, the declared result does;
// also where one without a channel may be over replicas, of which there is one.
int64_t group_by_result(const Node& node, size_t i, const Shape& x, int64_t dim, bool grows) {
  const ReplicaGroups& groups = node.attrs.replica_groups;
  const int64_t known = devices_per_group(node);
  const bool over_replicas = !node.attrs.channel_id && !node.attrs.use_global_device_ids;
  if ((known != 1 && !over_replicas) || !groups.lists.empty() || groups.num_groups != 0)
    return known;
  const Shape* declared = &node.shape;
  if (node.is(Opcode::all_gather_start) && declared->elements.size() > 1)
    declared = &declared->elements[1];
  if (declared->is_tuple && i < declared->elements.size()) declared = &declared->elements[i];
  if (declared->is_tuple || declared->rank() != x.rank()) return known;
  const int64_t result = declared->dims[static_cast<size_t>(dim)];
  const int64_t operand = x.dims[static_cast<size_t>(dim)];
  const int64_t large = grows ? result : operand, small = grows ? operand : result;
  if (small <= 0 || large <= 0 || large % small != 0) return known;
  return known == 1 || large == small ? large / small : known;
}

void check_divides(const Node& node, const Shape& operand, int64_t dim, int64_t group) {
  if (operand.dims[static_cast<size_t>(dim)] % group != 0)
    user_error("{}: dim {} of {} does not divide by the {} devices of a group; pad it first",
               opcode_name(node.opcode()), dim, to_string(operand), group);
}

// One result per operand; several make a tuple.
template <class F>
Shape each_operand(const Node& node, F&& result_of) {
  check_operand_count(node, 1, -1);
  std::vector<Shape> results;
  for (size_t i = 0; i < node.operands().size(); ++i)
    results.push_back(result_of(array_operand(node, static_cast<int64_t>(i))));
  return tuple_unless_one(std::move(results));
}

Shape infer_all_reduce(const Node& node) {
  check_groups(node);
  return each_operand(node, [&](const Shape& x) {
    check_combiner_computation(node, {x.dtype});
    return Shape(x.dtype, x.dims);
  });
}

Shape infer_all_gather(const Node& node) {
  size_t i = 0;
  return each_operand(node, [&](const Shape& x) {
    const auto dim = static_cast<size_t>(named_dim(node, x));
    const int64_t group = group_by_result(node, i++, x, static_cast<int64_t>(dim), true);
    Shape result(x.dtype, x.dims);
    result.dims[dim] = saturating_multiply(result.dims[dim], group);
    return checked_size(node, result);
  });
}

Shape infer_reduce_scatter(const Node& node) {
  size_t i = 0;
  return each_operand(node, [&](const Shape& x) {
    const int64_t dim = named_dim(node, x);
    const int64_t group = group_by_result(node, i++, x, dim, false);
    check_divides(node, x, dim, group);
    check_combiner_computation(node, {x.dtype});
    Shape result(x.dtype, x.dims);
    result.dims[static_cast<size_t>(dim)] /= group;
    return result;
  });
}

// With a dim: split and concatenated along it. Without: operand i goes to member i of the group.
Shape infer_all_to_all(const Node& node) {
  const int64_t group = devices_per_group(node);
  if (!node.attrs.dimensions.empty()) {
    check_operand_count(node, 1);
    const Shape& x = array_operand(node, 0);
    check_divides(node, x, named_dim(node, x), group);
    return Shape(x.dtype, x.dims);
  }
  check_operand_count(node, 1, -1);
  const ReplicaGroups& groups = node.attrs.replica_groups;
  const bool unknown = group == 1 && groups.lists.empty() && groups.num_groups == 0;
  if (!unknown && static_cast<int64_t>(node.operands().size()) != group)
    user_error(
        "all-to-all: {} operands for groups of {} devices; give one each, or dimensions={{d}}",
        node.operands().size(), group);
  std::vector<Shape> results;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const Shape& x = array_operand(node, static_cast<int64_t>(i));
    if (!(x == array_operand(node, 0)))
      user_error("all-to-all: operands {} and {} differ; all have one shape",
                 to_string(array_operand(node, 0)), to_string(x));
    results.emplace_back(x.dtype, x.dims);
  }
  return Shape::tuple(std::move(results));
}

void check_ends(const char* end, std::vector<int64_t> devices) {
  std::sort(devices.begin(), devices.end());
  if (!devices.empty() && devices.front() < 0)
    user_error("collective-permute: {} device {} is negative", end, devices.front());
  const auto twice = std::adjacent_find(devices.begin(), devices.end());
  if (twice != devices.end())
    user_error("collective-permute: device {} is a {} twice", *twice, end);
}

Shape infer_collective_permute(const Node& node) {
  std::vector<int64_t> sources;
  std::vector<int64_t> targets;
  for (const auto& [source, target] : node.attrs.permutation->pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  check_ends("source", std::move(sources));
  check_ends("target", std::move(targets));
  // Into a buffer: operand, buffer, and the places in both. Read and printed; what runs it refuses
  // it.
  if (node.operands().size() == 4 && node.attrs.other.contains("slice_sizes"))
    return node.operand(1)->shape;
  return each_operand(node, [&](const Shape& x) { return Shape(x.dtype, x.dims); });
}

Shape infer_collective_broadcast(const Node& node) {
  check_groups(node);
  return each_operand(node, [&](const Shape& x) { return Shape(x.dtype, x.dims); });
}

// Operands: input, output, input offsets, send sizes, output offsets, receive sizes.
Shape infer_ragged_all_to_all(const Node& node) {
  check_operand_count(node, 6);
  check_groups(node);
  check_same_dtype(node, 0, 1);
  for (int64_t i = 2; i < 6; ++i)
    if (const Shape& list = array_operand(node, i); !is_integer(list.dtype))
      user_error("ragged-all-to-all: operand {} is {}; it holds offsets or sizes, integers", i,
                 to_string(list));
  return Shape(node.operand(1)->shape.dtype, node.operand(1)->shape.dims);
}

// (operands, results, whatever else is declared); a single one stands bare.
template <Shape (*infer)(const Node& node)>
Shape infer_start(const Node& node) {
  const Shape results = infer(node);
  std::vector<Shape> operands;
  for (const Node* operand : node.operands()) operands.push_back(operand->shape);
  const std::vector<Shape>& elements = node.shape.elements;
  if (elements.size() < 2 || !(elements[0] == tuple_unless_one(operands)) ||
      !(elements[1] == results))
    user_error("{}: the result {} has to be ({}, {})", opcode_name(node.opcode()),
               to_string(node.shape), to_string(tuple_unless_one(operands)), to_string(results));
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
  return node.shape;
}

Shape infer_all_reduce_done(const Node& node) {
  check_operand_count(node, 1);
  return node.operand(0)->shape;
}

Shape infer_done(const Node& node) { return operand_element(node, 1); }

Value evaluate_done(const EvalContext& context) {
  if (context.node.is(Opcode::all_reduce_done)) return context.operands[0];
  return context.operands[0].elements[1];
}

bool permutes(const Node& node) {
  return node.is(Opcode::collective_permute) || node.is(Opcode::collective_permute_start);
}

// Whether the result is a tuple of the operands, the results and whatever else is declared.
bool starts(const Node& node) {
  return node.is(Opcode::all_gather_start) || node.is(Opcode::collective_permute_start);
}

Value evaluate_alone(const EvalContext& context) {
  const Node& node = context.node;
  if (!is_over_one_replica(node))
    user_error("{}: it has no meaning on one device; run the module on several devices",
               opcode_name(node.opcode()));
  const auto given = [&](const Shape& shape) {
    return shape.is_tuple ? Value::tuple({context.operands.begin(), context.operands.end()})
                          : context.operands[0];
  };
  const Shape& results = starts(node) ? node.shape.elements.at(1) : node.shape;
  const bool nobody_sends = permutes(node) && is_empty(*node.attrs.permutation);
  Value result = nobody_sends ? zero_value(results) : given(results);
  if (!starts(node)) return result;
  Value started = zero_value(node.shape);
  started.elements[0] = given(node.shape.elements[0]);
  started.elements[1] = std::move(result);
  return started;
}

// Operand i and result leaf i, each with factors of its own. Dims of another size are scattered,
// and what tells a permute its places is beside: no loops of a result.
FactorRule same_dims_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const std::vector<Shape> results = leaf_shapes(node.shape);
  for (size_t i = 0; i < rule.operands.size() && i < results.size(); ++i)
    for (size_t d = 0; d < rule.operands[i].size() && d < results[i].dims.size(); ++d)
      if (const int64_t size = results[i].dims[d]; size == node.operands()[i]->dims()[d])
        rule.operands[i][d] = rule.results[i][d] = add_factor(rule, size);
  return rule;
}

FactorRule same_dims_nest(const Node& node, CompletionMode) { return same_dims_factors(node); }

// Over a channel partitions speak of their own values, which completion has no whole value for; but
// where only some axes are manual, values are whole along the others.
bool without_channel(const Node& node, bool) {
  const auto is_partly_manual = [](const Node* n) {
    return n->sharding && n->sharding->is_tiled() && !n->sharding->manual_digits().empty();
  };
  return !node.attrs.channel_id ||
         std::any_of(node.operands().begin(), node.operands().end(), is_partly_manual) ||
         std::any_of(node.users().begin(), node.users().end(), is_partly_manual);
}

// Without a channel a collective is over replicas. Of one replica it gives what it gets; a permute
// to which nobody sends gives zeros.
std::optional<Partitioned> partition_collective(PartitionContext& context, Node& node) {
  if (!is_over_one_replica(node)) return refuse_per_device(context, node);
  if (node.shape.is_tuple) return partition_tuple(context, node);
  const Sharding& s = context.sharding(node);
  if (node.is(Opcode::collective_permute) && is_empty(*node.attrs.permutation)) {
    Node* zero = hlo::constant(context.local(), Array(node.shape.dtype, {}));
    return Partitioned{hlo::broadcast(zero, local_shape(node.shape, s).dims, {}), s};
  }
  return Partitioned{context.reshard(node.operand(0), s), s};
}

constexpr CompletionRules kTogether{
    .forward = pointwise_forward, .may_be_tiled = without_channel, .speakers = Speakers::all};
constexpr CompletionRules kApart{.forward = representative_forward,
                                 .may_be_tiled = without_channel,
                                 .nest = same_dims_nest,
                                 .speakers = Speakers::all};
constexpr CompletionRules kPermuted{.forward = pointwise_forward, .speakers = Speakers::all};

// One exchange between devices, in a module that is to be partitioned over one replica.
constexpr OpInfo exchange(Opcode opcode, decltype(OpInfo::infer) infer,
                          decltype(OpInfo::leaf_gradient) gradient,
                          decltype(OpInfo::factors) factors = nullptr, uint32_t traits = 0,
                          CompletionRules completion = kPointwiseCompletion) {
  return {.opcode = opcode,
          .traits = kCollective | kIntegerPreserving | kMadeAsOne | traits,
          .operands = {1, -1},
          .infer = infer,
          .factors = factors,
          .evaluate = evaluate_alone,
          .leaf_gradient = gradient,
          .completion = completion,
          .partition = partition_collective,
          .batch = batch_shifted};
}

// One that only per-device programs hold: begun and ended apart, or ragged.
constexpr OpInfo per_device(Opcode opcode, uint32_t traits, decltype(OpInfo::infer) infer,
                            decltype(OpInfo::evaluate) evaluate) {
  return {.opcode = opcode,
          .traits = kIntegerPreserving | traits,
          .operands = {1, -1},
          .infer = infer,
          .evaluate = evaluate,
          .completion = kPointwiseCompletion,
          .batch = refuse_batch};
}

const OpInfo kCollectiveRows[] = {
    exchange(Opcode::all_reduce, infer_all_reduce, all_reduce_gradient, same_dims_factors,
             kPointwise, kTogether),
    exchange(Opcode::all_gather, infer_all_gather, all_gather_gradient),
    exchange(Opcode::reduce_scatter, infer_reduce_scatter, reduce_scatter_gradient, nullptr, 0,
             kApart),
    exchange(Opcode::all_to_all, infer_all_to_all, all_to_all_gradient),
    exchange(Opcode::collective_permute, infer_collective_permute, collective_permute_gradient,
             same_dims_factors, kPointwise, kPermuted),
    exchange(Opcode::collective_broadcast, infer_collective_broadcast,
             collective_broadcast_gradient, same_dims_factors),
    per_device(Opcode::ragged_all_to_all, kCollective, infer_ragged_all_to_all, nullptr),
    per_device(Opcode::all_reduce_start, kCollective, infer_all_reduce, evaluate_alone),
    per_device(Opcode::all_gather_start, kCollective, infer_start<infer_all_gather>,
               evaluate_alone),
    per_device(Opcode::collective_permute_start, kCollective, infer_start<infer_collective_permute>,
               evaluate_alone),
    per_device(Opcode::all_reduce_done, 0, infer_all_reduce_done, evaluate_done),
    per_device(Opcode::all_gather_done, 0, infer_done, evaluate_done),
    per_device(Opcode::collective_permute_done, 0, infer_done, evaluate_done),
};

}  // namespace

void check_group_size(const Node& node, int64_t num_devices) {
  const int64_t group = group_size(node.attrs.replica_groups, num_devices);
  const auto wrong = [&](const Shape& operand) {
    user_error("{}: \"{}\" of {} gives {}, which does not fit the {} devices of a group",
               opcode_name(node.opcode()), node.name(), to_string(operand), to_string(node.shape),
               group);
  };
  const bool gathers = node.is(Opcode::all_gather) || node.is(Opcode::all_gather_start);
  if (node.is(Opcode::all_to_all) && node.attrs.dimensions.empty() &&
      static_cast<int64_t>(node.operands().size()) != group)
    wrong(node.operand(0)->shape);
  if (!gathers && !node.is(Opcode::reduce_scatter)) return;
  const bool start = node.is(Opcode::all_gather_start);
  const std::vector<Shape> results = leaf_shapes(start ? node.shape.elements.at(1) : node.shape);
  const auto dim = static_cast<size_t>(node.attrs.dimensions.at(0));
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const Shape& x = node.operands()[i]->shape;
    const int64_t small = gathers ? x.dims.at(dim) : results.at(i).dims.at(dim);
    const int64_t large = gathers ? results.at(i).dims.at(dim) : x.dims.at(dim);
    if (saturating_multiply(small, group) != large) wrong(x);
  }
}

std::span<const OpInfo> collective_rows() { return kCollectiveRows; }

bool is_over_one_replica(const Node& node) {
  if (!node.op().has(kCollective) || node.attrs.channel_id || node.attrs.use_global_device_ids)
    return false;
  // Groups of all devices of a program change the shape, if these are more than one; a permute into
  // a buffer gives that buffer.
  const std::vector<Shape> results =
      leaf_shapes(starts(node) ? node.shape.elements.at(1) : node.shape);
  if (results.size() != node.operands().size()) return false;
  for (size_t i = 0; i < results.size(); ++i)
    if (!(results[i] == node.operands()[i]->shape)) return false;
  if (permutes(node)) {
    const auto pairs = materialize(*node.attrs.permutation);
    return std::all_of(pairs.begin(), pairs.end(),
                       [](const auto& pair) { return pair.first == 0 && pair.second == 0; });
  }
  const ReplicaGroups& groups = node.attrs.replica_groups;
  return groups.group_size <= 1 && std::all_of(groups.lists.begin(), groups.lists.end(),
                                               [](const auto& list) { return list.size() == 1; });
}

std::optional<Partitioned> refuse_per_device(PartitionContext&, Node& node) {
  user_error(
      "{}: {} belongs to a per-device program; a module to be partitioned computes on whole "
      "values, so write what it should compute without it",
      opcode_name(node.opcode()), node.name());
}

}  // namespace gspmd
