#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Whether derivatives of some nodes of this op are those of another form of them.
bool has_differentiable_form(Opcode opcode);
// The same value by ops that have gradients, emitted into node.parent(); nullptr: the node's own
// rule says it.
Node* differentiable_form(Node& node);

}  // namespace gspmd
