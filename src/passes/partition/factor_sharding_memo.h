#pragma once

#include <map>
#include <vector>

#include "passes/partition/shared_moves.h"

namespace gspmd {

// What is known of spreads in one program, and of what programs of this process asked alike: those
// that `explain` compiles differ in an annotation.
class FactorShardingMemo {
 public:
  // What `search` finds, for all nodes that ask the same; it is asked each time where the node asks
  // more than its layouts.
  CheapestFactorSharding chosen(const FactorShardingProblem& problem,
                                CheapestFactorSharding (*search)(const FactorShardingProblem&));

  SharedMoves shared;

 private:
  std::map<std::vector<int64_t>, CheapestFactorSharding> chosen_;
};

}  // namespace gspmd
