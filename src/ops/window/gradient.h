#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Of sums, and of extrema over windows without holes.
std::vector<Node*> reduce_window_gradient(Node& node, Node* cotangent);
Node* reduce_window_form(Node& node);  // of all others
std::vector<Node*> select_and_scatter_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
