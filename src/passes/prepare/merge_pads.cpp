#include "passes/prepare/merge_pads.h"

#include <algorithm>

#include "gspmd/ir/op.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

bool splits_what_changes(const Node& slice, const Node& pad) {
  if (!slice.sharding || !slice.sharding->is_tiled()) return false;
  for (int64_t d = 0; d < slice.rank(); ++d)
    if (!slice.sharding->dim(d).empty() && (slice.dim(d) != pad.dim(d))) return true;
  return false;
}

// What is sliced, beyond copies that leave it where it is.
const Node& sliced(const Node& slice) {
  const Node* x = slice.operand(0);
  while (x->is(Opcode::copy) && x->sharding == x->operand(0)->sharding) x = x->operand(0);
  return *x;
}

bool merges(const Node& slice) {
  if (!slice.is(Opcode::slice) || !sliced(slice).is(Opcode::pad)) return false;
  const Node& pad = sliced(slice);
  const auto one = [](int64_t stride) { return stride == 1; };
  return slice.shape.elements_count() > 0 && pad.operand(0)->shape.elements_count() > 0 &&
         std::all_of(slice.attrs.strides.begin(), slice.attrs.strides.end(), one) &&
         splits_what_changes(slice, pad);
}

void merge(Node& slice) {
  const Node& pad = sliced(slice);
  Attributes attrs;
  for (size_t d = 0; d < slice.dims().size(); ++d) {
    PaddingDim padding = pad.attrs.padding[d];
    padding.low -= slice.attrs.starts[d];
    padding.high -= pad.dims()[d] - slice.attrs.limits[d];
    attrs.padding.push_back(padding);
  }
  Computation& computation = slice.parent();
  Node* merged = computation.append(Opcode::pad, slice.shape, {pad.operand(0), pad.operand(1)},
                                    std::move(attrs), slice.name());
  merged->sharding = slice.sharding;
  merged->metadata = slice.metadata;
  merged->backward = slice.backward;
  computation.replace_uses(&slice, merged);
}

}  // namespace

bool may_merge_pads(const Module& module) { return any_node(module, merges); }

bool merge_pads(Module& module) {
  return rewrite_each(module, [](Computation& computation) {
    std::vector<Node*> slices;
    for (const auto& node : computation.nodes())
      if (merges(*node)) slices.push_back(node.get());
    for (Node* slice : slices) merge(*slice);
    return !slices.empty();
  });
}

}  // namespace gspmd
