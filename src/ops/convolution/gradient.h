#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

std::vector<Node*> convolution_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
