#pragma once

#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"

namespace gspmd {

// The aspects of debug calls as an op.
Shape infer_debug_call(const Node& node);
Value evaluate_debug_call(const EvalContext& context);  // as device 0
std::optional<Partitioned> partition_debug_call(PartitionContext& context, Node& node);
std::vector<BatchLeaf> batch_debug_call(BatchContext& context, const Node& node);

}  // namespace gspmd
