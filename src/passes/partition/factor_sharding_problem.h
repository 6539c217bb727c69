#pragma once

#include "passes/partition/choose_factor_sharding.h"
#include "passes/partition/spmd_partitioner.h"
#include "passes/partition/window_exchange.h"

namespace gspmd {

// Partial sums that stay, and the device order of their digits.
struct Pending {
  std::vector<Unreduced> sums;
  DeviceOrder order = nullptr;
};

// A value that is the same number everywhere: constants and broadcasts of scalar constants.
bool is_uniform(const Node& node);

// The digits that are manual in the region where the node stands.
Digits manual_of(SpmdPartitioner& spmd, Node& node);

// Scalar operands without the summed loop that others have, when that loop is spread: initial
// values. One that is the identity already needs no care.
std::vector<size_t> initial_values(const FactorRule& rule, const FactorDigits& spread,
                                   const Node& node);

// How a node's operands are held and its result is wanted, as completion says, or as `windows`
// counts them. `rule` outlives it.
FactorShardingProblem factor_sharding_problem(SpmdPartitioner& spmd, Node& node,
                                              const FactorRule& rule, const Pending& kept,
                                              const WindowExchange* windows = nullptr);

// What a search is to know beside: what has been moved already and what other nodes have moved
// anyway. Operands have been partitioned.
void add_prices(SpmdPartitioner& spmd, Node& node, const Pending& kept,
                FactorShardingProblem& problem);

}  // namespace gspmd
