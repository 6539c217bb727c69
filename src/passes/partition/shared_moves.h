#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "gspmd/ir/module.h"
#include "passes/partition/choose_factor_sharding.h"

namespace gspmd {

class SpmdPartitioner;

// Moves that serve several nodes: each has its part in them only, and none goes another way alone.
class SharedMoves {
 public:
  // Layouts of `value` that other products ask for anyway, where they are asked for by several and
  // all of these together send no less otherwise.
  std::vector<Sharding> layouts(SpmdPartitioner& spmd, Node& value, const Node& reader);
  // Whether so few ops of the module have sums that none stands for the layers of a recipe.
  bool has_few_sums(const Module& module);
  // How many runs of a reader each move of a value serves: that of what no iteration of a loop
  // changes is made before the loop.
  int64_t runs_of_move(const Node& value);
  // The layout of partial sums in which `node` is added to others that are left so too, and how
  // many are added before their sum is moved.
  std::optional<std::pair<Sharding, int64_t>> sum_with_others(SpmdPartitioner& spmd, Node& node);

 private:
  // The spread by cases, and the layouts that follow from it.
  struct First {
    FactorRule rule;
    FactorDigits spread;
    std::vector<Sharding> operands;
    Sharding result;  // with its sums
  };
  const First& first(SpmdPartitioner& spmd, Node& node);
  const Sharding* left_unreduced(SpmdPartitioner& spmd, Node& node);
  bool stays(SpmdPartitioner& spmd, Node& value, const Sharding& layout,
             const std::vector<Node*>& readers);

  int64_t runs(const Computation& computation);

  std::optional<bool> few_sums_;
  std::optional<std::unordered_map<const Computation*, int64_t>> runs_;  // of all computations
  std::map<int64_t, First> firsts_;                                      // by node
  std::map<std::pair<int64_t, bool>, std::vector<Sharding>> layouts_;    // by value and phase
};

}  // namespace gspmd
