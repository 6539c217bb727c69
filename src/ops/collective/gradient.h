#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Rows' leaf_gradient.
std::vector<Node*> all_reduce_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> all_gather_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> reduce_scatter_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> all_to_all_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> collective_permute_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> collective_broadcast_gradient(Node& node, const std::vector<Node*>& cotangents);

// Whether a custom-call is at the border of a manual region, between whole values and those of a
// shard; its gradient.
bool is_region_border(const Node& node);
Node* region_gradient(Node& call, Node* cotangent);

}  // namespace gspmd
