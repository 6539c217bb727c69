#pragma once

#include <map>
#include <vector>

#include "passes/partition/shared_moves.h"

namespace gspmd {

// What is known of spreads in one program, and of what programs of this process asked alike: those
// that `explain` compiles differ in an annotation.
class SpreadMemo {
 public:
  // What `search` finds, for all nodes that ask the same; it is asked each time where the node asks
  // more than its layouts.
  CheapestSpread chosen(const SpreadProblem& problem,
                        CheapestSpread (*search)(const SpreadProblem&));

  SharedMoves shared;

 private:
  std::map<std::vector<int64_t>, CheapestSpread> chosen_;
};

}  // namespace gspmd
