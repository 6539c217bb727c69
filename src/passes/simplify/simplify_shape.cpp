#include <algorithm>
#include <numeric>

#include "ops/sort/sort.h"
#include "passes/simplify/simplify_rules.h"

namespace gspmd {
namespace {

Attributes with_dimensions(Dims dimensions) {
  Attributes attrs;
  attrs.dimensions = std::move(dimensions);
  return attrs;
}

bool is_identity(const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// The operand, where the op changes nothing about it.
Node* if_unchanged(Node& node, bool unchanged) {
  return unchanged && node.operand(0)->shape == node.shape ? node.operand(0) : nullptr;
}

// A data movement of a splat is a broadcast of its scalar. Scalars stay, or they would be rewritten
// forever.
Node* move_splat(Node& node) {
  Node* const scalar = splat_source(node.operand(0));
  if (scalar == nullptr || node.rank() == 0) return nullptr;
  return node.parent().append(Opcode::broadcast, node.shape, {scalar});
}

Node* rewrite_copy(Node& node) { return if_unchanged(node, true); }

Node* rewrite_reshape(Node& node) {
  if (Node* const same = if_unchanged(node, true)) return same;
  if (Node* const splat = move_splat(node)) return splat;
  Node* const inner = node.operand(0);
  if (!inner->is(Opcode::reshape)) return nullptr;
  return node.parent().append(Opcode::reshape, node.shape, {inner->operand(0)});
}

Node* rewrite_transpose(Node& node) {
  if (Node* const same = if_unchanged(node, is_identity(node.attrs.dimensions))) return same;
  if (Node* const splat = move_splat(node)) return splat;
  Node* const inner = node.operand(0);
  if (!inner->is(Opcode::transpose)) return nullptr;
  Dims dims;
  for (const int64_t d : node.attrs.dimensions)
    dims.push_back(inner->attrs.dimensions.at(static_cast<size_t>(d)));
  return node.parent().append(Opcode::transpose, node.shape, {inner->operand(0)},
                              with_dimensions(std::move(dims)));
}

Node* rewrite_broadcast(Node& node) {
  if (Node* const same = if_unchanged(node, is_identity(node.attrs.dimensions))) return same;
  Node* const inner = node.operand(0);
  Node* const scalar = splat_source(inner);
  if (scalar != nullptr && scalar != inner)
    return node.parent().append(Opcode::broadcast, node.shape, {scalar});
  if (!inner->is(Opcode::broadcast)) return nullptr;
  Dims dims;
  for (const int64_t d : inner->attrs.dimensions)
    dims.push_back(node.attrs.dimensions.at(static_cast<size_t>(d)));
  return node.parent().append(Opcode::broadcast, node.shape, {inner->operand(0)},
                              with_dimensions(std::move(dims)));
}

Node* rewrite_slice(Node& node) {
  if (Node* const same = if_unchanged(node, true)) return same;
  if (Node* const splat = move_splat(node)) return splat;
  Node* const inner = node.operand(0);
  if (!inner->is(Opcode::slice) || node.shape.elements_count() == 0) return nullptr;
  Attributes attrs;
  for (size_t d = 0; d < node.dims().size(); ++d) {
    const int64_t stride = inner->attrs.strides[d] * node.attrs.strides[d];
    const int64_t start = inner->attrs.starts[d] + node.attrs.starts[d] * inner->attrs.strides[d];
    attrs.starts.push_back(start);
    attrs.strides.push_back(stride);
    attrs.limits.push_back(start + (node.dims()[d] - 1) * stride + 1);
  }
  return node.parent().append(Opcode::slice, node.shape, {inner->operand(0)}, std::move(attrs));
}

Node* rewrite_reverse(Node& node) {
  const Dims& dims = node.attrs.dimensions;
  const bool trivial =
      std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return node.dim(d) <= 1; });
  if (Node* const same = if_unchanged(node, trivial)) return same;
  return move_splat(node);
}

Node* rewrite_concatenate(Node& node) { return if_unchanged(node, node.operands().size() == 1); }

Node* rewrite_pad(Node& node) {
  const std::vector<PaddingDim>& padding = node.attrs.padding;
  return if_unchanged(node, std::all_of(padding.begin(), padding.end(),
                                        [](const PaddingDim& p) { return p == PaddingDim{}; }));
}

// Of the whole operand: the start is clamped to 0.
Node* rewrite_dynamic_slice(Node& node) {
  if (Node* const same = if_unchanged(node, true)) return same;
  return move_splat(node);
}

Node* rewrite_dynamic_update_slice(Node& node) {
  Node* const update = node.operand(1);
  return update->shape == node.shape ? update : nullptr;
}

Node* rewrite_get_tuple_element(Node& node) {
  Node* const tuple = node.operand(0);
  return tuple->is(Opcode::tuple) ? tuple->operand(node.attrs.index) : nullptr;
}

// tuple(gte(t,0), gte(t,1), ...) of all elements -> t
Node* rewrite_tuple(Node& node) {
  if (node.operands().empty()) return nullptr;
  Node* source = nullptr;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    Node* const element = node.operands()[i];
    if (!element->is(Opcode::get_tuple_element) ||
        element->attrs.index != static_cast<int64_t>(i) ||
        (source != nullptr && element->operand(0) != source))
      return nullptr;
    source = element->operand(0);
  }
  return source->shape == node.shape ? source : nullptr;
}

// Bits that a type's values may have: an integer's width without sign, a float's significand.
int value_bits(DType dtype) {
  switch (dtype) {
    case DType::pred:
      return 1;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::f32:
      return 24;
    case DType::f64:
      return 53;
    default:
      return static_cast<int>(8 * dtype_size(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  }
}

// Whether every value of `from` is one of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to) return true;
  if (!is_computable(from) || !is_computable(to) || to == DType::pred) return false;
  if (is_floating(from))
    return is_floating(to) && dtype_size(to) > dtype_size(from);  // bf16 and f16 do not nest
  if (is_floating(to)) return value_bits(from) <= value_bits(to);
  if (is_signed_integer(from) && is_unsigned_integer(to)) return false;
  return value_bits(from) <= value_bits(to);
}

Node* rewrite_convert(Node& node) {
  if (Node* const same = if_unchanged(node, true)) return same;
  Node* const inner = node.operand(0);
  Computation& c = node.parent();
  Node* const scalar = splat_source(inner);
  if (scalar != nullptr && scalar != inner) {
    Node* const converted = c.append(Opcode::convert, Shape(node.shape.dtype, {}), {scalar});
    converted->backward = node.backward;
    return c.append(Opcode::broadcast, node.shape, {converted});
  }
  if (!inner->is(Opcode::convert)) return nullptr;
  Node* const source = inner->operand(0);
  const DType from = source->shape.dtype, to = node.shape.dtype;
  if (!is_lossless(from, inner->shape.dtype)) return nullptr;
  // Floats that an integer type does not hold end at its bounds, integers wrap round.
  if (is_floating(inner->shape.dtype) && is_integer(from) && is_integer(to) &&
      !is_lossless(from, to))
    return nullptr;
  if (source->shape == node.shape) return source;
  return c.append(Opcode::convert, node.shape, {source});
}

constexpr SimplifyRule kShapeRules[] = {
    {Opcode::copy, rewrite_copy},
    {Opcode::reshape, rewrite_reshape},
    {Opcode::transpose, rewrite_transpose},
    {Opcode::broadcast, rewrite_broadcast},
    {Opcode::slice, rewrite_slice},
    {Opcode::slice, topk_of_slice_of_sort},
    {Opcode::custom_call, topk_of_approximate},
    {Opcode::reverse, rewrite_reverse},
    {Opcode::concatenate, rewrite_concatenate},
    {Opcode::pad, rewrite_pad},
    {Opcode::dynamic_slice, rewrite_dynamic_slice},
    {Opcode::dynamic_update_slice, rewrite_dynamic_update_slice},
    {Opcode::get_tuple_element, rewrite_get_tuple_element},
    {Opcode::tuple, rewrite_tuple},
    {Opcode::convert, rewrite_convert},
};

}  // namespace

Node* splat_source(Node* node) {
  while (!node->shape.is_tuple && node->rank() > 0) {
    const bool moves = node->is(Opcode::broadcast) || node->is(Opcode::reshape);
    if (!moves) return nullptr;
    node = node->operand(0);
  }
  return node->shape.is_tuple ? nullptr : node;
}

std::optional<double> splat_value(Node* node) {
  const Node* const scalar = splat_source(node);
  if (scalar == nullptr || !scalar->is(Opcode::constant) || !is_computable(scalar->shape.dtype) ||
      scalar->attrs.literal.empty())
    return std::nullopt;
  return scalar->attrs.literal.at(0);
}

std::span<const SimplifyRule> shape_rules() { return kShapeRules; }

}  // namespace gspmd
