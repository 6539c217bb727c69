#pragma once

#include <unordered_map>
#include <vector>

#include "passes/partition/shared_moves.h"

namespace gspmd {

// What a search looks at, in numbers.
using FactorShardingKey = std::vector<int64_t>;
struct FactorShardingKeyHash {
  size_t operator()(const FactorShardingKey& key) const;
};
template <class T>
using FactorShardingTable = std::unordered_map<FactorShardingKey, T, FactorShardingKeyHash>;

// What is known of spreads in one program, and of what programs of this process asked alike: those
// that `explain` compiles differ in an annotation.
class FactorShardingMemo {
 public:
  // What `search` finds, for all nodes that ask the same; it is asked each time where the node asks
  // more than its layouts.
  CheapestFactorSharding chosen(const FactorShardingProblem& problem,
                                CheapestFactorSharding (*search)(const FactorShardingProblem&));
  // The same of nodes that sum nothing.
  FactorDigits chosen_without_sums(const FactorShardingProblem& problem,
                                   FactorDigits (*search)(const FactorShardingProblem&));

  SharedMoves shared;

 private:
  FactorShardingTable<CheapestFactorSharding> chosen_;
  FactorShardingTable<FactorDigits> without_sums_;
};

}  // namespace gspmd
