#include "gspmd/passes/fuse/fuse.h"

#include <set>

#include "ops/common/run_forms.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

// The computations that run step by step: the entry, loops, branches and calls below it.
void collect(Computation* computation, std::set<Computation*>& seen,
             std::vector<Computation*>& out) {
  if (!seen.insert(computation).second) return;
  out.push_back(computation);
  for (const auto& node : computation->nodes()) {
    if (!node->is(Opcode::while_) && !node->is(Opcode::call) && !node->is(Opcode::conditional))
      continue;
    for (Computation* called : node->called) collect(called, seen, out);
  }
}

}  // namespace

Node* copy_into(Computation& fused, const Node& node, std::vector<Node*> operands) {
  Node* copy =
      fused.append(node.opcode(), node.shape, std::move(operands), node.attrs, node.name());
  copy->called = node.called;
  copy->metadata = node.metadata;
  copy->backward = node.backward;
  return copy;
}

Node* add_parameter(Computation& fused, const std::vector<Node*>& inputs) {
  Attributes attrs;
  attrs.index = std::ssize(inputs) - 1;
  return fused.append(Opcode::parameter, inputs.back()->shape, {}, std::move(attrs), "p");
}

Node* append_fusion(Computation& computation, Computation& fused, std::vector<Node*> inputs,
                    const char* kind, const Node& model) {
  Attributes attrs;
  attrs.fusion_kind = kind;
  Node* fusion = computation.append(Opcode::fusion, fused.root()->shape, std::move(inputs),
                                    std::move(attrs), model.name() + "_fusion");
  fusion->called = {&fused};
  fusion->metadata = model.metadata;
  fusion->backward = model.backward;
  return fusion;
}

bool fuse(Module& local) {
  std::set<Computation*> seen;
  std::vector<Computation*> running;
  if (local.entry() != nullptr) collect(local.entry(), seen, running);
  bool changed = false;
  for (Computation* computation : running) {
    changed |= use_run_forms(*computation);
    changed |= fuse_row_blocks(*computation);
    changed |= fuse_interleaves(*computation);
    changed |= fuse_dots(*computation);
    changed |= fuse_loops(*computation);
    changed |= fuse_row_tiles(*computation);
  }
  if (changed) local.sort_computations();  // the new ones stand behind the entry
  return changed;
}

}  // namespace gspmd
