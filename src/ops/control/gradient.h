#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Rows' leaf_gradient: of add-dependency and copy-done, and of copy-start.
std::vector<Node*> first_operand_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> copy_start_gradient(Node& node, const std::vector<Node*>& cotangents);

}  // namespace gspmd
