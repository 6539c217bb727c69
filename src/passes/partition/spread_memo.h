#pragma once

#include <map>
#include <vector>

#include "passes/partition/shared_moves.h"

namespace gspmd {

// What is known of spreads in one program.
class SpreadMemo {
 public:
  // What choose_among_sums chose for all nodes that ask the same; nullptr: the node asks more than
  // its layouts. The caller fills what is new (an empty spread).
  CheapestSpread* chosen(const SpreadProblem& problem);

  SharedMoves shared;

 private:
  std::map<std::vector<int64_t>, CheapestSpread> chosen_;
};

}  // namespace gspmd
