#include "ops/common/completion.h"

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "ops/scan/scan.h"

namespace gspmd {
namespace {

struct LaidParts {
  int64_t dim = 0, inputs = 0, carries = 0, outputs = 0;
};

LaidParts laid_parts(const Node& node) {
  LaidParts parts;
  const auto operands = static_cast<int64_t>(node.operands().size());
  const int64_t given = node.attrs.scalar->num_carries;
  parts.dim = node.attrs.dimensions.at(0);
  parts.carries = std::min(given > 0 ? given : operands / 2, operands);
  parts.inputs = operands - parts.carries;
  const int64_t results = leaf_count(node.shape);
  parts.carries = std::min(parts.carries, results);
  parts.outputs = results - parts.carries;
  return parts;
}

}  // namespace

// Outputs are laid out as the inputs; a carry as what one step of an input is, and as its start.
Proposals scan_forward(const Node& node, CompletionMode) {
  const LaidParts parts = laid_parts(node);
  const std::vector<Shape> results = leaf_shapes(node.shape);
  Proposals proposals;
  for (int64_t i = 0; i < parts.inputs; ++i) {
    const Node& input = *node.operand(i);
    const Sharding* s = tiled_leaf(input);
    if (!s) continue;
    if (i < parts.outputs && results[static_cast<size_t>(i)].dims == input.dims())
      proposals.push_back({*s, i, i});
    const Dims step = kept_dims(input, {parts.dim});
    const auto carry = static_cast<size_t>(parts.outputs + i);
    if (i < parts.carries && results[carry].rank() == static_cast<int64_t>(step.size()))
      proposals.push_back({select_dims(*s, step), i, parts.outputs + i});
  }
  for (int64_t c = 0; c < parts.carries; ++c)
    if (const Sharding* s = tiled_leaf(*node.operand(parts.inputs + c)))
      proposals.push_back({*s, parts.inputs + c, parts.outputs + c});
  return proposals;
}

Suggestions scan_suggestions(const Node& node, int64_t operand, CompletionMode) {
  const LaidParts parts = laid_parts(node);
  const int64_t result = operand < parts.inputs ? operand : operand - parts.inputs + parts.outputs;
  const std::vector<Shape> results = leaf_shapes(node.shape);
  if (operand < parts.inputs && result >= parts.outputs) return {};
  if (result >= static_cast<int64_t>(results.size())) return {};
  const Sharding* s = tiled_leaf(node, result);
  const bool same = results[static_cast<size_t>(result)].dims == node.operand(operand)->dims();
  return s && same ? Suggestions{{*s, -1, result}} : Suggestions{};
}

}  // namespace gspmd
