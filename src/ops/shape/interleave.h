#pragma once

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Whether the node combines two pads that stand in turn along one dim, as results of recursive
// scans are put together: add or or of pads between elements, of the same constant.
bool is_interleave(const Node& node);

// Of a fusion whose root is one, its parameters the elements 0, 2, ... and 1, 3, ....
PreparedKernel lower_interleave(const Node& fusion);

// Which operand of an interleave has the first element.
int64_t first_of_interleave(const Node& node);

}  // namespace gspmd
