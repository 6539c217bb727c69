#include <cmath>

#include "gspmd/base/error.h"
#include "passes/simplify/simplify_rules.h"

namespace gspmd {
namespace {

constexpr int64_t kFoldedElements = 16;

// Whether `node` is the constant `value` everywhere; zeros are told apart by their sign.
bool is_splat(Node* node, double value) {
  const std::optional<double> found = splat_value(node);
  return found && *found == value && std::signbit(*found) == std::signbit(value);
}

bool is_float(const Node& node) { return is_floating(node.shape.dtype); }

// The operand beside a constant `value` on either side.
Node* other_than(Node& node, double value) {
  if (is_splat(node.operand(1), value)) return node.operand(0);
  if (is_splat(node.operand(0), value)) return node.operand(1);
  return nullptr;
}

// The operand that is the constant `value` itself.
Node* operand_equal_to(Node& node, double value) {
  for (Node* operand : node.operands())
    if (is_splat(operand, value)) return operand;
  return nullptr;
}

Node* if_operands_equal(Node& node) {
  return node.operand(0) == node.operand(1) ? node.operand(0) : nullptr;
}

// x + 0: of floats only -0 is neutral, since -0 + 0 is 0.
Node* rewrite_add(Node& node) { return other_than(node, is_float(node) ? -0.0 : 0.0); }

Node* rewrite_subtract(Node& node) {
  return is_splat(node.operand(1), 0.0) ? node.operand(0) : nullptr;
}

Node* rewrite_multiply(Node& node) {
  if (Node* const other = other_than(node, 1)) return other;
  return is_integer(node.shape.dtype) ? operand_equal_to(node, 0) : nullptr;
}

Node* rewrite_divide(Node& node) {
  return is_splat(node.operand(1), 1) ? node.operand(0) : nullptr;
}

Node* rewrite_and(Node& node) {
  if (Node* const same = if_operands_equal(node)) return same;
  if (node.shape.dtype != DType::pred) return nullptr;
  if (Node* const other = other_than(node, 1)) return other;
  return operand_equal_to(node, 0);
}

Node* rewrite_or(Node& node) {
  if (Node* const same = if_operands_equal(node)) return same;
  if (node.shape.dtype != DType::pred) return nullptr;
  if (Node* const other = other_than(node, 0)) return other;
  return operand_equal_to(node, 1);
}

// not(not(x)), negate(negate(x))
Node* rewrite_involution(Node& node) {
  Node* const inner = node.operand(0);
  return inner->is(node.opcode()) ? inner->operand(0) : nullptr;
}

Node* rewrite_select(Node& node) {
  if (node.operand(1) == node.operand(2)) return node.operand(1);
  const std::optional<double> predicate = splat_value(node.operand(0));
  if (!predicate) return nullptr;
  return node.operand(*predicate != 0 ? 1 : 2);
}

// The exclusive bound of partition-id, converted or divided by constants a few times.
std::optional<int64_t> device_bound(Node* node) {
  double divided = 1;
  for (int steps = 0; steps < 8; ++steps) {
    if (node->is(Opcode::partition_id)) {
      const auto devices = static_cast<double>(node->parent().module().num_partitions);
      return static_cast<int64_t>(std::ceil(devices / divided));
    }
    if (node->is(Opcode::divide)) {
      const std::optional<double> divisor = splat_value(node->operand(1));
      if (!divisor || *divisor < 1) return std::nullopt;
      divided *= *divisor;
    } else if (!node->is(Opcode::convert)) {
      return std::nullopt;
    }
    node = node->operand(0);
  }
  return std::nullopt;
}

// (partition-id / a) % b where b is not smaller than what stands before.
Node* rewrite_remainder(Node& node) {
  if (node.rank() != 0 || !is_integer(node.shape.dtype)) return nullptr;
  const std::optional<double> divisor = splat_value(node.operand(1));
  if (!divisor || *divisor < 1 || *divisor > static_cast<double>(int64_t{1} << 31)) return nullptr;
  const std::optional<int64_t> bound = device_bound(node.operand(0));
  return bound && *bound <= static_cast<int64_t>(*divisor) ? node.operand(0) : nullptr;
}

constexpr SimplifyRule kArithmeticRules[] = {
    {Opcode::add, rewrite_add},           {Opcode::subtract, rewrite_subtract},
    {Opcode::multiply, rewrite_multiply}, {Opcode::divide, rewrite_divide},
    {Opcode::and_, rewrite_and},          {Opcode::or_, rewrite_or},
    {Opcode::not_, rewrite_involution},   {Opcode::negate, rewrite_involution},
    {Opcode::select, rewrite_select},     {Opcode::remainder, rewrite_remainder},
    {Opcode::maximum, if_operands_equal}, {Opcode::minimum, if_operands_equal},
};

// A collective in which every device is alone.
Node* rewrite_alone(Node& node) {
  const ReplicaGroups& groups = node.attrs.replica_groups;
  const bool alone =
      node.operands().size() == 1 &&
      (groups.num_groups > 0 ? groups.group_size == 1
                             : (groups.lists.empty() ? node.parent().module().num_partitions == 1
                                                     : groups.lists.front().size() == 1));
  if (!alone) return nullptr;
  for (const std::vector<int64_t>& group : groups.lists)  // sizes may differ
    if (group.size() != 1) return nullptr;
  return node.operand(0)->shape == node.shape ? node.operand(0) : nullptr;
}

constexpr SimplifyRule kCollectiveRules[] = {
    {Opcode::all_reduce, rewrite_alone},
    {Opcode::all_gather, rewrite_alone},
    {Opcode::reduce_scatter, rewrite_alone},
    {Opcode::all_to_all, rewrite_alone},
};

// Whether every kernel, the oracle's and the fast one, gives the same bits.
bool is_exact_op(const Node& node) {
  if (node.op().has(kIntegerPreserving) || node.is(Opcode::convert) || node.is(Opcode::divide))
    return true;
  for (const Node* operand : node.operands())
    if (is_floating(operand->shape.dtype)) return false;
  return !is_floating(node.shape.dtype);
}

}  // namespace

Node* fold_constants(Node& node) {
  if (!node.op().has(kElementwise) || node.op().evaluate == nullptr || node.operands().empty() ||
      node.shape.is_tuple || node.shape.elements_count() > kFoldedElements || !is_exact_op(node) ||
      !is_computable(node.shape.dtype))
    return nullptr;
  std::vector<Value> values;
  for (const Node* operand : node.operands()) {
    if (!operand->is(Opcode::constant) || !is_computable(operand->shape.dtype) ||
        operand->attrs.literal.empty())
      return nullptr;
    values.push_back({operand->attrs.literal, {}, false});
  }
  const CallComputation no_calls = [](const Computation& called, std::span<const Value>) -> Value {
    internal_error("constant folding: \"{}\" was called", called.name());
  };
  Attributes attrs;
  attrs.literal = node.op().evaluate({node, values, no_calls}).array;
  return node.parent().append(Opcode::constant, node.shape, {}, std::move(attrs));
}

std::span<const SimplifyRule> arithmetic_rules() { return kArithmeticRules; }
std::span<const SimplifyRule> collective_rules() { return kCollectiveRules; }

}  // namespace gspmd
