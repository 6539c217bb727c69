#include "gspmd/ops/evaluate.h"

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "ops/evaluate/interpreter.h"

namespace gspmd {

Interpreter::Interpreter(Observer observer)
    : observer_(std::move(observer)),
      call_([this](const Computation& callee, std::span<const Value> arguments) {
        return run(callee, arguments);
      }) {}

Value Interpreter::run(const Computation& computation, std::span<const Value> arguments) {
  const RunPlan& plan = plans_[computation];
  std::vector<Value> values(plan.steps.size());
  std::vector<Value> operands;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const RunPlan::Step& step = plan.steps[i];
    if (step.node->is(Opcode::parameter)) {
      values[i] = arguments[static_cast<size_t>(step.node->attrs.index)];
      continue;
    }
    operands.clear();
    for (const size_t operand : step.operands) operands.push_back(values[operand]);
    for (const size_t dead : step.dead) values[dead] = {};
    values[i] = at_node(*step.node, [&] { return evaluate_node(*step.node, operands, call_); });
    if (observer_) observer_(*step.node, operands, values[i]);
  }
  return std::move(values[plan.root]);
}

Value evaluate(const Computation& computation, std::span<const Value> arguments) {
  check_runnable(computation, false);
  check_arguments(computation, arguments);
  return Interpreter().run(computation, arguments);
}

Value evaluate(const Module& module, std::span<const Value> arguments) {
  if (module.entry() == nullptr)
    user_error("evaluate: module {} has no entry computation", module.name);
  return evaluate(*module.entry(), arguments);
}

}  // namespace gspmd
