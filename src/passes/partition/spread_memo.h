#pragma once

#include <map>

#include "passes/partition/shared_moves.h"
#include "passes/partition/spread_search.h"

namespace gspmd {

// What is known of spreads in one program.
class SpreadMemo {
 public:
  // cheapest_spread, once for all nodes that ask the same.
  CheapestSpread cheapest(const SpreadProblem& problem, const FactorDigits& first);

  SharedMoves shared;

 private:
  std::map<std::vector<int64_t>, CheapestSpread> known_;
};

}  // namespace gspmd
