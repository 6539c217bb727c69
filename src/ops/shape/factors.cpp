#include "ops/common/factors.h"

#include <algorithm>

#include "ops/shape/shape.h"

namespace gspmd {
std::vector<std::pair<int64_t, int64_t>> reshape_kept_dims(const Dims& operand,
                                                           const Dims& result) {
  std::vector<std::pair<int64_t, int64_t>> kept;
  if (Shape(DType::pred, operand).elements_count() == 0) return kept;
  // Two cursors; `before` are the products of the dims that each has passed.
  size_t i = 0;
  size_t j = 0;
  int64_t before_i = 1;
  int64_t before_j = 1;
  while (i < operand.size() && j < result.size()) {
    if (before_i == before_j && operand[i] == result[j]) {
      kept.emplace_back(static_cast<int64_t>(i), static_cast<int64_t>(j));
      before_i *= operand[i++];
      before_j *= result[j++];
    } else if (before_i < before_j || (before_i == before_j && operand[i] == 1)) {
      before_i *= operand[i++];
    } else if (before_j < before_i || result[j] == 1) {
      before_j *= result[j++];
    } else {
      // Both start at the same place and neither is one: a merge or a split begins.
      before_i *= operand[i++];
      before_j *= result[j++];
    }
  }
  return kept;
}

FactorRule reshape_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (const auto& [from, to] : reshape_kept_dims(node.operand(0)->dims(), node.dims()))
    rule.operands[0][static_cast<size_t>(from)] = rule.results[0][static_cast<size_t>(to)] =
        add_factor(rule, node.dim(to));
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d)
    if (rule.operands[0][static_cast<size_t>(d)] == FactorRule::kNone)
      block_operand(rule, node, 0, d);
  for (int64_t d = 0; d < node.rank(); ++d)
    if (rule.results[0][static_cast<size_t>(d)] == FactorRule::kNone) block_result(rule, node, d);
  return rule;
}

FactorRule broadcast_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (size_t d = 0; d < node.dims().size(); ++d)
    rule.results[0][d] = add_factor(rule, node.dims()[d]);
  for (size_t i = 0; i < node.attrs.dimensions.size(); ++i)
    rule.operands[0][i] = rule.results[0][static_cast<size_t>(node.attrs.dimensions[i])];
  return rule;
}

FactorRule transpose_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (size_t d = 0; d < node.dims().size(); ++d)
    rule.results[0][d] = rule.operands[0][static_cast<size_t>(node.attrs.dimensions[d])] =
        add_factor(rule, node.dims()[d]);
  return rule;
}

namespace {

// Dims of the first operand and the result that are one loop or, some of them, a window.
void open_window(FactorRule& rule, int64_t operand, int64_t dim, const WindowStep& step) {
  const int64_t factor = rule.results[0][static_cast<size_t>(dim)];
  rule.factors[static_cast<size_t>(factor)].kind = FactorKind::window;
  add_window(rule, operand, dim, step);
}

}  // namespace

FactorRule reverse_factors(const Node& node) {
  FactorRule rule = pointwise_factors(node);
  for (const int64_t d : node.attrs.dimensions) open_window(rule, 0, d, {.step = -1});
  return rule;
}

FactorRule concatenate_factors(const Node& node) {
  FactorRule rule = pointwise_factors(node);
  if (node.operands().size() < 2) return rule;
  const int64_t d = node.attrs.dimensions[0];
  int64_t before = 0;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    open_window(rule, i, d, {.low = before});
    before += node.operand(i)->dim(d);
  }
  return rule;
}

FactorRule pad_factors(const Node& node) {
  FactorRule rule = pointwise_factors(node);
  rule.outside_operand = 1;
  // A scalar operand has the result's rank where that is 0, and no dims then.
  for (int64_t d = 0; d < node.rank(); ++d) {
    const PaddingDim& p = node.attrs.padding[static_cast<size_t>(d)];
    if (p == PaddingDim{}) continue;
    open_window(rule, 0, d, {.low = bounded(p.low), .hole = bounded(p.interior) + 1});
  }
  return rule;
}

Attributes pad_on_part(const Node& node, const NodePart& part) {
  Attributes attrs = node.attrs;
  for (size_t d = 0; d < part.dims.size(); ++d)
    if (part.dims[d] == PartDim::fetched) attrs.padding.edit()[d] = {};
  return attrs;
}

FactorRule slice_factors(const Node& node) {
  FactorRule rule = pointwise_factors(node);
  for (int64_t d = 0; d < node.rank(); ++d)
    if (node.dim(d) != node.operand(0)->dim(d))
      open_window(rule, 0, d,
                  {.step = node.attrs.strides[static_cast<size_t>(d)],
                   .low = -node.attrs.starts[static_cast<size_t>(d)]});
  return rule;
}

Attributes slice_on_part(const Node& node, const NodePart& part) {
  Attributes attrs = node.attrs;
  for (size_t d = 0; d < part.dims.size(); ++d) {
    if (part.dims[d] == PartDim::cut) attrs.limits.edit()[d] = part.operands[0].dims[d];
    if (part.dims[d] != PartDim::fetched) continue;
    attrs.starts.edit()[d] = 0;
    attrs.limits.edit()[d] = attrs.strides[d] * (part.results[0].dims[d] - 1) + 1;
  }
  return attrs;
}

FactorRule dynamic_slice_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (int64_t d = 0; d < node.rank(); ++d) {
    if (node.dim(d) == node.operand(0)->dim(d)) {
      rule.operands[0][static_cast<size_t>(d)] = rule.results[0][static_cast<size_t>(d)] =
          add_factor(rule, node.dim(d));
    } else {
      block_operand(rule, node, 0, d);
      block_result(rule, node, d);
    }
  }
  return rule;
}

// Operand and result are one layout everywhere; an update of part of a dim needs it whole.
FactorRule dynamic_update_slice_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (int64_t d = 0; d < node.rank(); ++d) {
    const auto dim = static_cast<size_t>(d);
    const bool full = node.operand(1)->dim(d) == node.dim(d);
    const int64_t factor =
        add_factor(rule, node.dim(d), full ? FactorKind::pass : FactorKind::window);
    rule.operands[0][dim] = rule.results[0][dim] = factor;
    if (full)
      rule.operands[1][dim] = factor;
    else
      block_operand(rule, node, 1, d);
  }
  return rule;
}

FactorRule iota_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (size_t d = 0; d < node.dims().size(); ++d)
    rule.results[0][d] = add_factor(rule, node.dims()[d]);
  return rule;
}

}  // namespace gspmd
