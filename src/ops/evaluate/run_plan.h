#pragma once

#include <memory>
#include <unordered_map>

#include "gspmd/ir/op.h"

namespace gspmd {

// The order in which an evaluator runs one computation: its live nodes, operands first, and which
// values nobody reads after each step. Positions count the steps.
struct RunPlan {
  struct Step {
    const Node* node = nullptr;
    std::vector<size_t> operands;  // positions
    std::vector<size_t> dead;      // positions whose values can go after this step
  };
  std::vector<Step> steps;
  size_t root = 0;  // the step of the result
};
RunPlan make_plan(const Computation& computation);

// Plans made once per computation.
class PlanCache {
 public:
  const RunPlan& operator[](const Computation& computation);

 private:
  std::unordered_map<const Computation*, std::unique_ptr<RunPlan>> plans_;
};

// UserError unless every computation that `entry` reaches can be evaluated: no recursion, every
// shape as its op infers, element types that can be computed with; `collectives`: whether those are
// allowed.
void check_runnable(const Computation& entry, bool collectives);
void check_arguments(const Computation& entry, std::span<const Value> arguments);

// evaluate with the node named where memory ends.
Value evaluate_node(const Node& node, std::span<const Value> operands, const CallComputation& call);

}  // namespace gspmd
