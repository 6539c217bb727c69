#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// What the factor rules of the families share.

// The attributes of a node's part, given its operands there and the leaves of its result: dims of
// the first operand that have another size are cut.
Attributes attributes_on_part(const Node& node, const std::vector<Node*>& operands,
                              std::vector<Shape> leaves);

// A rule without factors: every dim of every operand and result leaf is FactorRule::kNone. Tuple
// operands have no dims here.
FactorRule no_factors(const Node& node);
int64_t add_factor(FactorRule& rule, int64_t size, FactorKind kind = FactorKind::pass,
                   Combiner combiner = Combiner::sum);
// A factor that makes one dim of an operand (result) be whole.
void block_operand(FactorRule& rule, const Node& node, int64_t operand, int64_t dim);
void block_result(FactorRule& rule, const Node& node, int64_t dim);

// Says how the window factor of one dim of an operand reads it.
void add_window(FactorRule& rule, int64_t operand, int64_t dim, const WindowStep& step);
WindowStep window_step(const WindowDim& w);  // of pooling and convolutions
// Paddings and dilations within +-2^40: what lies beyond is served by nobody, and sums of these
// fit.
int64_t bounded(int64_t step_size);

// OpInfo::on_part of ops whose slices have all of what a shard has of a dim.
Attributes slice_sizes_on_part(const Node& node, const NodePart& part);

// Every dim of every operand and result has to be whole on every device; nothing propagates.
FactorRule whole_factors(const Node& node);
// One factor per dim of the result; operands of the result's rank share them, scalars have none.
FactorRule pointwise_factors(const Node& node);

// In every rule whose scalars start sums: operands that lack a reduction factor which others have
// (reduce's init, scatter's operand) are initial values. They count once: one piece takes them, the
// others the identity.

}  // namespace gspmd
