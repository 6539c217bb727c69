#include "ops/common/completion.h"

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "ops/window/window.h"

namespace gspmd {

Proposals reduce_window_forward(const Node& node, CompletionMode) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1 || w.window_dilation > 1) return {};
  return for_every_result(node, pairs_of(node), [](const Node&, const Sharding& s) { return s; });
}

MaybeSharding reduce_window_backward(const Node& node, int64_t operand, CompletionMode) {
  const Sharding* s = tiled_leaf(node, operand);
  return s && operand < pairs_of(node) ? MaybeSharding(*s) : std::nullopt;
}

Proposals select_and_scatter_forward(const Node& node, CompletionMode) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1) return {};
  return for_every_result(node, 1, [](const Node&, const Sharding& s) { return s; });
}

}  // namespace gspmd
