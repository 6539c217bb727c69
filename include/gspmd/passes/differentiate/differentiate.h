#pragma once

// Reverse-mode differentiation of the graph.

#include <span>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// A copy with this frontend attribute lets no cotangent through.
inline constexpr const char* kStopGradient = "gspmd.stop_gradient";

// Reverse-mode derivatives of the scalar `loss` with respect to `inputs` (nodes of the same
// computation); emits nodes marked backward after the existing ones. Inputs that do not reach the
// loss get zeros. The cotangent of an annotated node (Sharding op) carries the same annotation.
// UserError: loss not a floating scalar, an op on the way without a gradient (names op, reason,
// line).
GSPMD_API std::vector<Node*> differentiate(Node* loss, std::span<Node* const> inputs);

}  // namespace gspmd
