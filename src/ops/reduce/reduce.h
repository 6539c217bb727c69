#pragma once

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

Value evaluate_reduce(const EvalContext& context);
PreparedKernel lower_reduce(const Node& node);
std::vector<Node*> reduce_gradient(Node& node, Node* cotangent);

// Several values reduced at once over split dims, or one by a computation without a name: on each
// device, then the results of all.
std::optional<Partitioned> partition_variadic_reduce(PartitionContext& context, Node& node);

}  // namespace gspmd
