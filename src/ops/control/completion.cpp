#include "ops/common/completion.h"

#include <algorithm>
#include <array>

#include "gspmd/ir/effects.h"
#include "gspmd/ops/builders.h"
#include "ops/common/completion_rules.h"
#include "ops/control/control.h"

namespace gspmd {
namespace {

// Leaves [begin, begin + count) of a tuple sharding, as the sharding of a value of `shape`.
Sharding part(const Sharding& s, int64_t begin, const Shape& shape) {
  const auto& leaves = s.elements();
  if (!shape.is_tuple) return leaves.at(static_cast<size_t>(begin));
  return Sharding::tuple({leaves.begin() + begin, leaves.begin() + begin + leaf_count(shape)});
}

// Calls that leave every element where it is.
constexpr std::array<std::string_view, 3> kPassing{"Sharding", "X64Combine", "LayoutConstraint"};
// These too, where they have one operand of the result's rank.
constexpr std::array<std::string_view, 9> kPassingUnary{
    "ResizeNearest", "ResizeBilinear", "ResizeNearestGrad", "ResizeBilinearGrad", "Cholesky",
    "MoveToHost",    "MoveToDevice",   "PinToDevice",       "PinToDeviceSram"};

bool passes_through(const Node& node) {
  const auto is_one_of = [&](const auto& targets) {
    return std::find(targets.begin(), targets.end(), node.attrs.custom_call_target) !=
           targets.end();
  };
  if (node.operands().empty() || node.shape.is_tuple) return false;
  for (const Node* operand : node.operands())
    if (operand->shape.is_tuple || operand->rank() != node.rank()) return false;
  return is_one_of(kPassing) || (node.operands().size() == 1 && is_one_of(kPassingUnary));
}

bool is_call_to(const Node& node, std::string_view target) {
  return node.attrs.custom_call_target == target && node.operands().size() == 1;
}

bool starts_or_ends_manual(const Node& node) {
  return node.attrs.custom_call_target == "SPMDFullToShardShape" ||
         node.attrs.custom_call_target == "SPMDShardToFullShape";
}

}  // namespace

Proposals tuple_forward(const Node& node, CompletionMode) {
  std::vector<Sharding> leaves;
  bool any = false;
  for (const Node* operand : node.operands()) {
    any = any || propagates(operand->sharding);
    const auto count = static_cast<size_t>(leaf_count(operand->shape));
    if (!operand->sharding)
      leaves.insert(leaves.end(), count, Sharding::replicated());
    else if (!operand->sharding->is_tuple())
      leaves.insert(leaves.end(), count, *operand->sharding);
    else if (operand->sharding->elements().size() == count)
      leaves.insert(leaves.end(), operand->sharding->elements().begin(),
                    operand->sharding->elements().end());
    else  // an outfeed: one sharding for what goes out, the last one for its token
      leaves.insert(leaves.end(), count, operand->sharding->elements().back());
  }
  if (!any) return {};
  return {{Sharding::tuple(std::move(leaves)), -1}};
}

// A value that is several elements at once gets the most specific of their shardings.
Suggestions tuple_suggestions(const Node& node, int64_t operand, CompletionMode) {
  if (!node.sharding || !node.sharding->is_tuple()) return {};
  const Node* value = node.operand(operand);
  MaybeSharding best;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    if (node.operands()[i] != value) continue;
    Sharding s =
        part(*node.sharding, first_leaf(node.shape, static_cast<int64_t>(i)), value->shape);
    if (!best || (!s.is_tuple() && more_specific(s, *best))) best = std::move(s);
  }
  return only(std::move(best));
}

Proposals element_forward(const Node& node, CompletionMode) {
  const MaybeSharding& s = node.operand(0)->sharding;
  if (!s || !s->is_tuple()) return {};
  return {{part(*s, first_leaf(node.operand(0)->shape, node.attrs.index), node.shape), 0}};
}

Suggestions element_suggestions(const Node& node, int64_t, CompletionMode) {
  if (!node.sharding) return {};
  const Shape& shape = node.operand(0)->shape;
  std::vector<Sharding> leaves(static_cast<size_t>(leaf_count(shape)));
  const int64_t begin = first_leaf(shape, node.attrs.index);
  for (int64_t i = 0; i < leaf_count(node.shape); ++i)
    leaves[static_cast<size_t>(begin + i)] =
        node.sharding->is_tuple() ? node.sharding->elements().at(static_cast<size_t>(i))
                                  : *node.sharding;
  return only(Sharding::tuple(std::move(leaves)));
}

// ShardBarrierFrom stops what comes forward, ShardBarrierTo what comes back.
Proposals custom_call_forward(const Node& node, CompletionMode mode) {
  if (is_call_to(node, "ShardBarrierTo")) return same_forward(node, mode);
  return passes_through(node) ? representative_forward(node, mode) : Proposals{};
}

// A call of the result's dims is taken to work on each element's own device.
Suggestions custom_call_suggestions(const Node& node, int64_t operand, CompletionMode mode) {
  if (is_debug_call(node)) return {};  // who looks on changes nothing
  if (is_call_to(node, "ShardBarrierTo")) return only(Sharding::replicated());
  return starts_or_ends_manual(node) ? Suggestions{} : same_dims_suggestions(node, operand, mode);
}

bool custom_call_may_be_tiled(const Node& node, bool spmd) {
  return spmd && (passes_through(node) || is_call_to(node, "ShardBarrierTo") ||
                  is_call_to(node, "ShardBarrierFrom"));
}

}  // namespace gspmd
