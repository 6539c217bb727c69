#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/custom_calls.h"
#include "gspmd/ops/custom_ops.h"
#include "ops/common/check.h"
#include "ops/common/factors.h"
#include "ops/common/open_dims.h"
#include "ops/control/control.h"
#include "ops/control/debug_call.h"
#include "ops/library/library.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// Targets that give their operand back; the first of them keep its shape whatever the layout.
constexpr std::array<std::string_view, 9> kIdentities{
    "Sharding",     "ShardBarrierFrom", "ShardBarrierTo",  "LayoutConstraint",         "MoveToHost",
    "MoveToDevice", "PinToDevice",      "PinToDeviceSram", "annotate_device_placement"};
// 64 bits in two halves, the lower one first, and the halves of 64 bits. The halves of f64 are two
// f32 that sum to it: what f32 keeps of it, the higher one, and what f32 keeps of the rest.
constexpr std::string_view kCombine = "X64Combine";
constexpr std::array<std::string_view, 2> kHalves{"X64SplitLow", "X64SplitHigh"};
// These change between the whole shape and that of a shard.
constexpr std::array<std::string_view, 2> kRegions{"SPMDFullToShardShape", "SPMDShardToFullShape"};

template <class List>
bool is_in(const List& list, const std::string& target) {
  return std::find(list.begin(), list.end(), target) != list.end();
}

bool is_half_of(DType half, DType wide) {
  if (wide == DType::f64) return half == DType::f32;
  return (wide == DType::u64 || wide == DType::s64) && (half == DType::u32 || half == DType::s32);
}

Shape infer_halves(const Node& node) {
  const bool combines = node.attrs.custom_call_target == kCombine;
  check_operand_count(node, combines ? 2 : 1);
  const Shape& x = array_operand(node, 0);
  const DType wide = combines ? node.shape.dtype : x.dtype;
  const DType half = combines ? x.dtype : node.shape.dtype;
  const bool same = !combines || (array_operand(node, 1).dims == x.dims &&
                                  is_half_of(array_operand(node, 1).dtype, wide));
  if (node.shape.is_tuple || node.shape.dims != x.dims || !same || !is_half_of(half, wide))
    user_error(
        "custom-call: {} of {} is declared as {}; it is between u32 or s32 halves and u64 or s64, "
        "or f32 halves and f64, all of the same dims",
        *node.attrs.custom_call_target, to_string(x), to_string(node.shape));
  return node.shape;
}

// Of the bits of an element.
uint64_t bits_at(const Array& array, int64_t i) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(dtype_size(array.dtype()));
  std::memcpy(&bits, array.bytes().data() + static_cast<size_t>(i) * size, size);
  return bits;
}

Value evaluate_float_halves(const EvalContext& context) {
  const std::string& target = context.node.attrs.custom_call_target;
  const Array& x = context.operands[0].array;
  Array result(context.node.shape);
  const auto size = static_cast<size_t>(result.size());
  if (target == kCombine) {
    const auto a = x.data<float>(), b = context.operands[1].array.data<float>();
    const auto sum = result.data<double>();
    for (size_t i = 0; i < size; ++i) sum[i] = double{a[i]} + double{b[i]};
    return {result, {}, false};
  }
  const auto wide = x.data<double>();
  const auto half = result.data<float>();
  for (size_t i = 0; i < size; ++i) {
    const auto high = static_cast<float>(wide[i]);
    // An infinity or NaN is all in the higher half.
    const float low = std::isfinite(high) ? static_cast<float>(wide[i] - double{high}) : 0.0F;
    half[i] = target == kHalves[1] ? high : low;
  }
  return {result, {}, false};
}

Value evaluate_halves(const EvalContext& context) {
  const std::string& target = context.node.attrs.custom_call_target;
  if (is_floating(context.node.shape.dtype)) return evaluate_float_halves(context);
  Array result(context.node.shape);
  const auto size = static_cast<size_t>(dtype_size(result.dtype()));
  for (int64_t i = 0; i < result.size(); ++i) {
    uint64_t bits = bits_at(context.operands[0].array, i);
    if (target == kCombine)
      bits |= bits_at(context.operands[1].array, i) << 32;
    else if (target == kHalves[1])
      bits >>= 32;
    std::memcpy(result.bytes().data() + static_cast<size_t>(i) * size, &bits, size);
  }
  return {result, {}, false};
}

}  // namespace

bool is_custom_call(const Node& node, std::string_view target) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == target;
}

bool is_annotation(const Node& node) { return is_custom_call(node, "Sharding"); }

Node* annotated_like(Node* value, const Node& annotation) {
  Node* const annotated =
      emit(value->parent(), Opcode::custom_call, {value}, annotation.attrs, annotation.shape);
  annotated->sharding = annotation.sharding;
  annotated->frontend_attributes = annotation.frontend_attributes;
  annotated->frontend_attributes.emplace(kMirrors, annotation.name());
  return annotated;
}

bool is_identity_call(const Node& node) {
  return is_in(kIdentities, *node.attrs.custom_call_target);
}

bool is_known_call(const Node& node) {
  const std::string& target = node.attrs.custom_call_target;
  return is_elementwise_call(node) || is_in(kRegions, target) || top_k_call_info(node) != nullptr ||
         approximate_top_k_info(node) != nullptr || library_call_info(node) != nullptr ||
         is_debug_call(node) || find_custom_op(target) != nullptr;
}

bool is_elementwise_call(const Node& node) {
  const std::string& target = node.attrs.custom_call_target;
  return is_identity_call(node) || target == kCombine || is_in(kHalves, target);
}

Shape infer_custom_call(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
  const std::string& target = node.attrs.custom_call_target;
  if (is_debug_call(node)) return infer_debug_call(node);
  if (target == "Sharding" || is_in(kRegions, target)) unspecified_dims(node);  // refuses
  if (!is_elementwise_call(node)) return node.shape;
  if (!is_identity_call(node)) return infer_halves(node);
  check_operand_count(node, 1, target == "Sharding" ? 1 : -1);
  const Shape& x = node.operand(0)->shape;
  if (!(x == node.shape))
    user_error("custom-call: {} of {} is declared as {}; it keeps the shape", target, to_string(x),
               to_string(node.shape));
  return node.shape;
}

// Of an unknown target nothing is known: all dims whole.
FactorRule custom_call_factors(const Node& node) {
  if (is_elementwise_call(node) && !node.shape.is_tuple) return pointwise_factors(node);
  return whole_factors(node);
}

Value evaluate_custom_call(const EvalContext& context) {
  const std::string& target = context.node.attrs.custom_call_target;
  if (is_debug_call(context.node)) return evaluate_debug_call(context);
  if (is_identity_call(context.node)) return context.operands[0];
  if (is_elementwise_call(context.node)) return evaluate_halves(context);
  if (is_in(kRegions, target)) {
    if (context.operands.size() == 1 && context.node.operand(0)->shape == context.node.shape)
      return context.operands[0];
    user_error(
        "custom-call: \"{}\" ({}) changes between whole and shard; partition the module "
        "before it runs",
        context.node.name(), target);
  }
  user_error(
      "custom-call: target \"{}\" is not known, so it cannot run; docs/spec/command.md 3.3 lists "
      "those that are. Say what it does with register_op, or take it out",
      target);
}

}  // namespace gspmd
