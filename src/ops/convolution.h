#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

Value evaluate_convolution(const EvalContext& context);
PreparedKernel lower_convolution(const Node& node);

}  // namespace gspmd
