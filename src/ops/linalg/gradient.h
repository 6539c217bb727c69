#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

std::vector<Node*> cholesky_gradient(Node& node, Node* cotangent);  // of the lower triangle
Node* cholesky_form(Node& node);                                    // of the upper one
std::vector<Node*> triangular_solve_gradient(Node& node, Node* cotangent);
std::vector<Node*> fft_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
