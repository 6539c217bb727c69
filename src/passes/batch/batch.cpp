#include "gspmd/passes/batch/batch.h"

#include <unordered_set>

#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ops/common/batch.h"
#include "ops/control/control.h"
#include "passes/batch/batcher.h"
#include "passes/differentiate/markers.h"

namespace gspmd {

Batcher::Batcher(Computation& into, const BatchOptions& options) : c_(into), options_(options) {}

const std::vector<BatchLeaf>& Batcher::leaves(const Node& node) const { return leaves_.at(&node); }

std::vector<BatchLeaf> Batcher::run(const Computation& called, Computation& into,
                                    const std::vector<BatchLeaf>& arguments) {
  return Batcher(into, options_).run_here(called, arguments);
}

namespace {

// Members of a group lie alike: all of them are batched or none is.
bool is_in_group(const Node& node) {
  return is_annotation(node) && node.sharding && node.sharding->shard_group() != 0;
}

}  // namespace

std::vector<BatchLeaf> Batcher::run_here(const Computation& source,
                                         const std::vector<BatchLeaf>& arguments) {
  auto next = arguments.begin();
  for (const Node* parameter : source.parameters()) {
    const auto end = next + static_cast<std::ptrdiff_t>(leaf_count(parameter->shape));
    leaves_[parameter] = {next, end};
    next = end;
  }
  const FlatSet<const Node*> needed = running_nodes(source);
  for (const std::unique_ptr<Node>& node : source.nodes())
    if (needed.contains(node.get()) && leaves_.count(node.get()) == 0)
      at_node(*node, [&] { leaves_[node.get()] = visited(*node); });
  return leaves_.at(source.root());
}

std::vector<BatchLeaf> Batcher::visited(const Node& node) {
  const EmissionScope scope(node.metadata, node.backward);
  bool batched = is_in_group(node);
  for (const Node* operand : node.operands()) batched = batched || any_batched(leaves(*operand));
  if (node.is(Opcode::tuple)) {
    std::vector<BatchLeaf> all;
    for (const Node* operand : node.operands())
      all.insert(all.end(), leaves(*operand).begin(), leaves(*operand).end());
    return all;
  }
  if (node.is(Opcode::get_tuple_element)) {
    const int64_t first = first_leaf(node.operand(0)->shape, node.attrs.index);
    const auto begin = leaves(*node.operand(0)).begin() + first;
    return {begin, begin + static_cast<std::ptrdiff_t>(leaf_count(node.shape))};
  }
  if (!batched) return copied(node);
  if (marker_of(node) != Marker::none) return batch_marker(node);
  return node.op().batch != nullptr ? node.op().batch(*this, node) : batch_by_nest(*this, node);
}

// What does not depend on the batch stays as it is.
std::vector<BatchLeaf> Batcher::copied(const Node& node) {
  std::vector<Node*> operands;
  for (const Node* operand : node.operands())
    operands.push_back(hlo::from_leaves(c_, operand->shape, nodes_of(leaves(*operand))));
  Node* const copy =
      c_.append(node.opcode(), node.shape, std::move(operands), node.attrs, node.name());
  copy_annotations(node, *copy);
  copy->called = node.called;
  return leaves_of(copy, false);
}

std::vector<BatchLeaf> batch(const Computation& source, Computation& into,
                             const std::vector<BatchLeaf>& arguments, const BatchOptions& options) {
  return Batcher(into, options).run_here(source, arguments);
}

}  // namespace gspmd
