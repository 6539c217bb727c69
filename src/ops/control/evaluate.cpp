#include "gspmd/base/error.h"
#include "gspmd/ops/loop_guard.h"
#include "ops/control/control.h"

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
  LoopGuard guard(context.node.name(), is_repeatable(context.node));
  while (context.call(condition, {&state, 1}).array.data<bool>()[0]) {
    if (guard.begin_iteration()) {
      std::vector<std::span<const std::byte>> values;
      for (const Array& leaf : leaves(state)) values.emplace_back(leaf.bytes());
      guard.carried(values);
    }
    state = context.call(body, {&state, 1});
  }
  return state;
}

Value evaluate_call(const EvalContext& context) {
  return context.call(*context.node.called[0], context.operands);
}

Value evaluate_operand(const EvalContext& context) { return context.operands[0]; }

int64_t chosen_branch(const Array& selector, int64_t branches) {
  if (selector.dtype() == DType::pred) return selector.data<bool>()[0] ? 0 : 1;
  const int64_t index = selector.data<int32_t>()[0];
  return index < 0 || index >= branches ? branches - 1 : index;
}

Value evaluate_conditional(const EvalContext& context) {
  const auto branches = static_cast<int64_t>(context.node.called.size());
  const auto branch = static_cast<size_t>(chosen_branch(context.operands[0].array, branches));
  return context.call(*context.node.called[branch], context.operands.subspan(branch + 1, 1));
}

Value zero_value(const Shape& shape) {
  if (!shape.is_tuple) return {Array(Shape(shape.dtype, shape.dims)), {}, false};
  std::vector<Value> elements;
  for (const Shape& element : shape.elements) elements.push_back(zero_value(element));
  return Value::tuple(std::move(elements));
}

}  // namespace gspmd
