#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Value evaluate_reduce(const EvalContext& context);
std::vector<Node*> reduce_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
