#pragma once

#include <vector>

#include "passes/partition/choose_factor_sharding.h"
#include "passes/partition/spmd_partitioner.h"

namespace gspmd {

// Loops that share no array with those of the first result, and the operands and results that have
// them: carries of a scan that do not meet. Their digits are chosen apart, so that one mesh axis
// may split several of them. Loops that are no pass have none and join nothing.
struct LoopsApart {
  std::vector<size_t> factors, operands, results;
};

// None where something else has taken digits.
std::vector<LoopsApart> loops_apart(const FactorShardingProblem& problem);

// Their operands say nothing of the loops of the others.
void leave_out(const LoopsApart& loops, FactorShardingProblem& problem);

// Digits of such loops: as one of their arrays is held or wanted, whichever sends least.
FactorDigits spread_apart(SpmdPartitioner& spmd, const FactorShardingProblem& problem,
                          const LoopsApart& loops);

}  // namespace gspmd
