#include "ops/common/factors.h"

namespace gspmd {

FactorRule no_factors(const Node& node) {
  constexpr size_t kUsual = 4;  // loops
  FactorRule rule;
  rule.factors.reserve(kUsual);
  rule.operands.reserve(node.operands().size());
  for (const Node* operand : node.operands())
    rule.operands.emplace_back(operand->shape.dims.size(), FactorRule::kNone);
  const auto add_result = [&](const Shape& leaf) {
    rule.results.emplace_back(leaf.dims.size(), FactorRule::kNone);
  };
  if (!node.shape.is_tuple)
    add_result(node.shape);
  else
    for (const Shape& leaf : leaf_shapes(node.shape)) add_result(leaf);
  return rule;
}

int64_t add_factor(FactorRule& rule, int64_t size, FactorKind kind, Combiner combiner) {
  rule.factors.push_back({size, kind, combiner});
  return static_cast<int64_t>(rule.factors.size()) - 1;
}

void block_operand(FactorRule& rule, const Node& node, int64_t operand, int64_t dim) {
  rule.operands[static_cast<size_t>(operand)][static_cast<size_t>(dim)] =
      add_factor(rule, node.operand(operand)->dim(dim), FactorKind::blocked);
}

void block_result(FactorRule& rule, const Node& node, int64_t dim) {
  rule.results[0][static_cast<size_t>(dim)] = add_factor(rule, node.dim(dim), FactorKind::blocked);
}

void add_window(FactorRule& rule, int64_t operand, int64_t dim, const WindowStep& step) {
  const auto i = static_cast<size_t>(operand), d = static_cast<size_t>(dim);
  if (rule.windows.size() <= i) rule.windows.resize(i + 1);
  if (rule.windows[i].size() <= d) rule.windows[i].resize(rule.operands[i].size());
  rule.windows[i][d] = step;
}

int64_t bounded(int64_t step_size) {
  constexpr int64_t kHuge = int64_t(1) << 40;
  return std::clamp(step_size, -kHuge, kHuge);
}

WindowStep window_step(const WindowDim& w) {
  return {w.stride, bounded(w.pad_low), bounded(w.base_dilation),
          saturating_add(saturating_multiply(w.size - 1, w.window_dilation), 1)};
}

Attributes attributes_on_part(const Node& node, const std::vector<Node*>& operands,
                              std::vector<Shape> leaves) {
  if (node.op().on_part == nullptr || node.operand(0)->shape.is_tuple) return node.attrs;
  NodePart part{{}, {}, std::move(leaves)};
  for (const Node* operand : operands) part.operands.push_back(operand->shape);
  for (int64_t d = 0; d < operands[0]->rank(); ++d)
    part.dims.push_back(operands[0]->dim(d) == node.operand(0)->dim(d) ? PartDim::whole
                                                                       : PartDim::cut);
  return node.op().on_part(node, part);
}

Attributes slice_sizes_on_part(const Node& node, const NodePart& part) {
  Attributes attrs = node.attrs;
  for (size_t d = 0; d < part.dims.size(); ++d)
    if (part.dims[d] == PartDim::cut) attrs.slice_sizes.edit().at(d) = part.operands[0].dims[d];
  return attrs;
}

FactorRule whole_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (size_t i = 0; i < rule.operands.size(); ++i)
    for (size_t d = 0; d < rule.operands[i].size(); ++d)
      block_operand(rule, node, static_cast<int64_t>(i), static_cast<int64_t>(d));
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  for (size_t i = 0; i < rule.results.size(); ++i)
    for (size_t d = 0; d < rule.results[i].size(); ++d)
      rule.results[i][d] = add_factor(rule, leaves[i].dims[d], FactorKind::blocked);
  return rule;
}

FactorRule pointwise_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (size_t d = 0; d < node.dims().size(); ++d) {
    const int64_t factor = add_factor(rule, node.dims()[d]);
    rule.results[0][d] = factor;
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (node.operands()[i]->dims().size() == node.dims().size()) rule.operands[i][d] = factor;
  }
  return rule;
}

}  // namespace gspmd
