#include "gspmd/base/error.h"
#include "ops/control.h"

namespace gspmd {

Value evaluate_tuple(const EvalContext& context) {
  return Value::tuple({context.operands.begin(), context.operands.end()});
}

Value evaluate_get_tuple_element(const EvalContext& context) {
  return context.operands[0].elements[static_cast<size_t>(context.node.attrs.index)];
}

Value evaluate_while(const EvalContext& context) {
  Value state = context.operands[0];
  const Computation& condition = *context.node.called[0];
  const Computation& body = *context.node.called[1];
  while (context.call(condition, {&state, 1}).array.data<bool>()[0])
    state = context.call(body, {&state, 1});
  return state;
}

Value evaluate_call(const EvalContext& context) {
  return context.call(*context.node.called[0], context.operands);
}

Value evaluate_operand(const EvalContext& context) { return context.operands[0]; }

Value evaluate_custom_call(const EvalContext& context) {
  const std::string& target = context.node.attrs.custom_call_target;
  if (target == "Sharding") return context.operands[0];
  user_error("custom-call: target \"{}\" is not known, so it cannot run; Sharding is", target);
}

}  // namespace gspmd
