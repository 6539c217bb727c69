#pragma once

#include <functional>
#include <string>

#include "gspmd/ir/op.h"

namespace gspmd {

// Operands: inputs, then the initial carries. to_apply takes one slice of each input (without the
// scan dim) and the carries, and returns one slice of each output and the next carries.
struct ScanParts {
  int64_t inputs = 0, carries = 0, outputs = 0;
  int64_t dim = 0, length = 0;
};
ScanParts scan_parts(const Node& node);  // UserError where the operands do not fit

// Leaves of a scan's (or its computation's) result, of one array too.
std::vector<Shape> scan_results(const Shape& shape);

// Dims along which the steps are the same loop for all values are pass factors; the scan dim is one
// blocked factor of all inputs and outputs.
FactorRule scan_factors(const Node& node);

// The computation of a scan whose factors f have parts of sizes[f] elements, in `target`. Pass
// factors only may be cut. `called`: what takes the place of a called computation of scalars.
Computation* scan_body_on_parts(const Node& scan, const std::vector<int64_t>& sizes, Module& target,
                                const std::function<Computation*(const Computation&)>& called);

std::vector<ShardingProposal> scan_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> scan_suggestions(const Node& reader, int64_t operand,
                                                CompletionMode mode);

// A scan along a split dim whose steps are associative: what the parts come to, then the parts.
std::optional<Partitioned> partition_scan(PartitionContext& context, Node& node);
// The steps of a part, of which pass factors may be cut.
std::vector<Computation*> scan_called_on_part(PartitionContext& context, const Node& scan,
                                              const NodePart& part);

}  // namespace gspmd
