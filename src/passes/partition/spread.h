#pragma once

#include <vector>

#include "gspmd/ir/factor_rule.h"
#include "gspmd/ir/module.h"
#include "ops/emission/factor_sharding.h"

namespace gspmd {

// What the choice of a spread looks at: how operands are held and how the result is wanted, as
// digits per factor over one device order.
struct SpreadProblem {
  const Node* node = nullptr;
  const FactorRule* rule = nullptr;
  DeviceOrder order = nullptr;
  std::vector<Sharding> operands;  // as readers see them
  std::vector<FactorDigits> have;  // [operand][factor]; empty for operands in another order
  std::vector<FactorDigits> near;  // the same, with those that a permute brings into this order
  FactorDigits want;               // [factor], of the completed result
  Sharding result;                 // completed sharding of result leaf 0
  int64_t num_devices = 1;         // of the program
  std::vector<bool> exchanged;     // [factor]: parts read something of other parts
  Digits taken;                    // unreduced digits that stay: not available to factors
};

// Digits per factor for the local computation. Loops on which operand and result agree first, then
// sums on which all operands agree, then what the result wants, then what costs less bytes: the
// case order of arXiv:2105.04663, 4.4 (docs/spec/partitioning.md 2.2), for any op with factors.
FactorDigits choose_spread(const SpreadProblem& problem);

}  // namespace gspmd
