#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Rows' leaf_gradient.
std::vector<Node*> sort_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> topk_gradient(Node& node, const std::vector<Node*>& cotangents);

}  // namespace gspmd
