#pragma once

#include "gspmd/ops/builders.h"

namespace gspmd {

// 0, 1, ..., rank - 1 without dim.
Dims dims_except(int64_t rank, int64_t dim);
// The elements of a tuple; an array alone.
std::vector<Node*> elements_of(Node* value);

}  // namespace gspmd
