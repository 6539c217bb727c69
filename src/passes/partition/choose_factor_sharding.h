#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "gspmd/ir/factor_rule.h"
#include "gspmd/ir/module.h"
#include "gspmd/moves/reshard.h"
#include "ops/emission/factor_sharding.h"

namespace gspmd {

// What the choice of a spread looks at: how operands are held and how the result is wanted, as
// digits per factor over one device order.
struct FactorShardingProblem {
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

  // What a search over all spreads looks at beside.
  std::vector<Sharding> held;                // operands as they are, sums of one reader unmade
  std::vector<std::vector<Sharding>> known;  // [operand]: layouts in which it is there already
  std::vector<bool> sends_nothing;           // [operand]: in any layout, nothing is sent
  std::vector<int64_t> repeats;              // [operand]: runs of the node for each of its moves
  // A layout of partial sums that so many nodes share: their sum is moved once.
  std::optional<std::pair<Sharding, int64_t>> shared_sum = std::nullopt;
  bool one_of_few = false;     // whether few ops of the program have sums
  bool joins_initial = false;  // sums over devices are made before an initial value joins them
  // What a part of dim d of operand i is sent of other parts where the dim is in so many: bytes
  // count elements of the dim. nullopt: it cannot be in so many.
  std::function<std::optional<ReshardCost>(size_t i, size_t d, int64_t tiles)> fetch = {};
};

// Whether some loop is summed.
bool has_sums(const FactorRule& rule);

// Digits per factor for the local computation, by cases: the order of arXiv:2105.04663, 4.4, for
// any op with factors. Loops on which operand and result agree, sums on which all operands agree,
// what the result wants, what costs less bytes.
FactorDigits factor_sharding_by_cases(const FactorShardingProblem& problem);

// A spread and what it sends.
struct CheapestFactorSharding {
  FactorDigits spread;
  ReshardCost cost;             // on the mesh as it is priced
  ReshardCost first;            // of the spread by cases
  bool first_in_place = false;  // whether that moves no operand
  bool priced = true;           // false: no costs are known
  int64_t real = 0;             // bytes of `spread` on all devices
  int64_t first_real = 0;       // and of the spread by cases
};

// What searches found, by all that they look at: layers of one program ask the same.
class FactorShardingMemo;

// Of an op with sums: the cheapest of all spreads that divide its work as well as that by cases
// does; that by cases, where it is agreed on and the op is one of many
// (docs/spec/partitioning.md 2.2).
CheapestFactorSharding choose_among_sums(const FactorShardingProblem& problem,
                                         FactorShardingMemo& memo);

// Of any op. Without sums, and where sums are kept partial: by cases, or in the layout of an
// operand, unpriced.
CheapestFactorSharding choose_factor_sharding(const FactorShardingProblem& problem,
                                              FactorShardingMemo& memo);

}  // namespace gspmd
