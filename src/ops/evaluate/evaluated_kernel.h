#pragma once

#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "gspmd/ops/evaluate.h"

namespace gspmd {

// The operands of a node from its flat leaf buffers, which they borrow.
std::vector<Value> operand_values(const Node& node, const std::byte* const* buffers);
// Its result into its flat leaf buffers.
void write_result(const Value& value, std::byte* const* buffers);

// The op's evaluation as a kernel: on one worker, element by element but for what its row of the
// op table does by a library; allocates in each call. The node must stay alive. UserError: the op
// has none.
PreparedKernel evaluated_kernel(const Node& node);

}  // namespace gspmd
