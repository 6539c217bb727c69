// Sums of pads between elements, as recursive scans end with: one pass over memory instead of
// three.

#include "ops/common/loop_lowering.h"
#include "ops/shape/interleave.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

void build_fusion(Computation& c, Node* node) {
  Computation* fused = c.module().add_computation(c.module().unique_name("fused_interleave"));
  std::vector<Node*> inputs;
  Node* pads[2];
  Node* const value = copy_into(*fused, *node->operand(0)->operand(1), {});
  const int64_t first = first_of_interleave(*node);
  for (const int64_t side : {first, 1 - first}) {
    const Node& pad = *node->operand(side);
    inputs.push_back(pad.operands()[0]);
    pads[side] = copy_into(*fused, pad, {add_parameter(*fused, inputs), value});
  }
  fused->set_root(copy_into(*fused, *node, {pads[0], pads[1]}));
  c.replace_uses(node, append_fusion(c, *fused, std::move(inputs), "kCustom", *node));
}

// Whether a loop computes what the pad spreads, and can write it there.
bool is_computed_for(const Node& pad) {
  const Node& x = *pad.operand(0);
  return (x.op().has(kElementwise) || loop_view(x) == LoopView::join) && x.users().size() == 1;
}

}  // namespace

bool fuse_interleaves(Computation& c) {
  std::vector<Node*> found;
  for (const auto& node : c.nodes()) {
    if (!is_interleave(*node)) continue;
    const bool alone =
        node->operand(0)->users().size() == 1 && node->operand(1)->users().size() == 1;
    const bool in_loop = is_computed_for(*node->operand(0)) || is_computed_for(*node->operand(1));
    if (alone && !in_loop) found.push_back(node.get());
  }
  if (found.empty()) return false;
  for (Node* node : found) build_fusion(c, node);
  c.remove_dead();
  c.sort();
  return true;
}

}  // namespace gspmd
