#include <algorithm>
#include <array>

#include "gspmd/base/error.h"
#include "ops/check.h"
#include "ops/control.h"
#include "ops/factors.h"
#include "ops/sort.h"
#include "ops/whole_factors.h"

namespace gspmd {
namespace {

// Targets that give their operand back; the first of them keep its shape whatever the layout.
constexpr std::array<std::string_view, 9> kIdentities{
    "Sharding",     "ShardBarrierFrom", "ShardBarrierTo",  "LayoutConstraint",         "MoveToHost",
    "MoveToDevice", "PinToDevice",      "PinToDeviceSram", "annotate_device_placement"};
// These change between the whole shape and that of a shard.
constexpr std::array<std::string_view, 2> kRegions{"SPMDFullToShardShape", "SPMDShardToFullShape"};

template <class List>
bool is_in(const List& list, const std::string& target) {
  return std::find(list.begin(), list.end(), target) != list.end();
}

Shape infer_top_k(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const std::vector<Shape>& elements = node.shape.elements;
  if (x.rank() == 0 || elements.size() != 2 || elements[0].is_tuple ||
      elements[0].rank() != x.rank())
    user_error("custom-call: TopK of {} is declared as {}; it gives values and indices",
               to_string(x), to_string(node.shape));
  const int64_t k = elements[0].dims.back();
  Dims dims = x.dims;
  dims.back() = k;
  if (k < 0 || k > x.dims.back() || !(elements[0] == Shape(x.dtype, dims)) ||
      !(elements[1] == Shape(DType::s32, dims)))
    user_error(
        "custom-call: TopK of {} is declared as {}; values and s32 indices of {} are its "
        "result",
        to_string(x), to_string(node.shape), to_string(Shape(x.dtype, dims)));
  if (is_complex(x.dtype) || x.dtype == DType::token)
    user_error("custom-call: TopK of {}; elements need an order", to_string(x));
  return node.shape;
}

Value evaluate_top_k(const EvalContext& context) {
  Module scratch("topk");
  Computation* const body = scratch.add_computation("topk");
  Node* const x = body->append(Opcode::parameter, context.node.operand(0)->shape, {});
  Attributes attrs;
  attrs.scalar->k = context.node.shape.elements[0].dims.back();
  const Node* const node =
      body->append(Opcode::topk, context.node.shape, {x}, attrs, context.node.name());
  return evaluate_topk({*node, context.operands, context.call});
}

}  // namespace

bool is_identity_call(const Node& node) {
  return is_in(kIdentities, node.attrs.custom_call_target);
}

Shape infer_custom_call(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
  const std::string& target = node.attrs.custom_call_target;
  if (target == "TopK") return infer_top_k(node);
  if (!is_identity_call(node)) return node.shape;
  check_operand_count(node, 1, target == "Sharding" ? 1 : -1);
  const Shape& x = node.operand(0)->shape;
  if (!(x == node.shape))
    user_error("custom-call: {} of {} is declared as {}; it keeps the shape", target, to_string(x),
               to_string(node.shape));
  return node.shape;
}

// Of an unknown target nothing is known: all dims whole.
FactorRule custom_call_factors(const Node& node) {
  if (is_identity_call(node) && !node.shape.is_tuple) return pointwise_factors(node);
  return whole_factors(node);
}

Value evaluate_custom_call(const EvalContext& context) {
  const std::string& target = context.node.attrs.custom_call_target;
  if (is_identity_call(context.node)) return context.operands[0];
  if (target == "TopK") return evaluate_top_k(context);
  if (is_in(kRegions, target)) {
    if (context.operands.size() == 1 && context.node.operand(0)->shape == context.node.shape)
      return context.operands[0];
    user_error(
        "custom-call: \"{}\" ({}) changes between whole and shard; partition the module "
        "before it runs",
        context.node.name(), target);
  }
  user_error(
      "custom-call: target \"{}\" is not known, so it cannot run; Sharding, "
      "SPMDFullToShardShape, SPMDShardToFullShape, ShardBarrierFrom, ShardBarrierTo, TopK and "
      "LayoutConstraint are",
      target);
}

}  // namespace gspmd
