#include "ops/common/whole_factors.h"

#include "ops/common/factors.h"

namespace gspmd {

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

}  // namespace gspmd
