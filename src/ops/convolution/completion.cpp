#include "ops/common/completion.h"

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "ops/convolution/convolution.h"

namespace gspmd {

// Beside its split window dims: a small kernel leaves the result where the input is, of what a
// large one makes only the batch is known.
Proposals convolution_forward(const Node& node, CompletionMode) {
  const Node& lhs = *node.operand(0);
  const ConvDims& conv = *node.attrs.conv;
  const Sharding* s = tiled_leaf(lhs);
  if (!s) return {};
  if (s->is_replicated()) return {{*s, 0}};
  Dims source(static_cast<size_t>(node.rank()), -1);
  source.at(static_cast<size_t>(conv.output_batch)) = conv.input_batch;
  if (has_small_kernel(node)) {
    if (s->tiles(conv.input_feature) > 1) return {};
    source.at(static_cast<size_t>(conv.output_feature)) = conv.input_feature;
    for (size_t i = 0; i < conv.output_spatial.size(); ++i)
      source.at(static_cast<size_t>(conv.output_spatial[i])) = conv.input_spatial.at(i);
  }
  return {{select_dims(*s, source), 0}};
}

}  // namespace gspmd
