#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// UserError when the node's operand count, shape, sharding or called computations do not fit its
// op. The message does not contain the node.
void verify_node(const Node& node);

// UserError when the computations that the node calls are not there or do not fit it.
void check_called(const Node& node);

// UserError when the module's aliases do not fit its entry.
void verify_aliases(const Module& module);

}  // namespace gspmd
