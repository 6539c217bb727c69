#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// What the factor rules of the families share.

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

// Attributes that repeat sizes of operand 0, of an op on parts of it: `cut` tells by dim whether
// the part `operand` has another size there.
Attributes attributes_on_parts(Attributes attrs, const std::vector<bool>& cut,
                               const Shape& operand);

// One factor per dim of the result; operands of the result's rank share them, scalars have none.
FactorRule pointwise_factors(const Node& node);

// In every rule: operands that lack a reduction factor which others have (reduce's init, scatter's
// operand) are initial values. They count once: one piece takes them, the others the identity.

}  // namespace gspmd
