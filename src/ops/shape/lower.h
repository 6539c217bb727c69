#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Data movement as strided copies, for all element types of 1 to 8 bytes.
PreparedKernel lower_broadcast(const Node& node);
PreparedKernel lower_transpose(const Node& node);
PreparedKernel lower_reverse(const Node& node);
PreparedKernel lower_slice(const Node& node);
PreparedKernel lower_concatenate(const Node& node);
PreparedKernel lower_pad(const Node& node);
PreparedKernel lower_dynamic_slice(const Node& node);
PreparedKernel lower_dynamic_update_slice(const Node& node);

}  // namespace gspmd
