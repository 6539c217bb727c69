#pragma once

#include <functional>

#include "ops/evaluate/run_plan.h"

namespace gspmd {

// Runs computations on one device, node by node. The module must be runnable (check_runnable).
class Interpreter {
 public:
  // Sees every node that ran with its operands and result, those of called bodies included.
  using Observer =
      std::function<void(const Node& node, std::span<const Value> operands, const Value& result)>;
  explicit Interpreter(Observer observer = {});
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Value run(const Computation& computation, std::span<const Value> arguments);
  const CallComputation& call() const { return call_; }

 private:
  PlanCache plans_;
  Observer observer_;
  CallComputation call_;
};

}  // namespace gspmd
