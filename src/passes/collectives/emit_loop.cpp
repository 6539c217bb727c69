#include "passes/collectives/emit_loop.h"

#include "ops/common/in_dim.h"

namespace gspmd {

std::vector<Node*> emit_loop(Computation& outer, const std::string& name, int64_t trips,
                             std::vector<Node*> state, const LoopStep& step) {
  if (trips < 1) return state;
  Module& module = outer.module();
  state.insert(state.begin(), hlo::scalar(outer, DType::s32, 0));
  Node* const initial = hlo::tuple(outer, state);

  Computation* const condition = module.add_computation(name + "_condition");
  Node* const counter = hlo::get_tuple_element(hlo::parameter(*condition, 0, initial->shape), 0);
  condition->set_root(hlo::compare(
      counter, hlo::scalar(*condition, DType::s32, static_cast<double>(trips)), Direction::lt));

  Computation* const body = module.add_computation(name + "_body");
  Node* const parameter = hlo::parameter(*body, 0, initial->shape);
  std::vector<Node*> inside = elements_of(parameter);
  Node* const iteration = inside[0];
  inside.erase(inside.begin());
  std::vector<Node*> next = step(*body, inside, iteration);
  next.insert(next.begin(), hlo::add(iteration, hlo::scalar(*body, DType::s32, 1)));
  body->set_root(hlo::tuple(*body, std::move(next)));

  Node* const loop = emit(outer, Opcode::while_, {initial}, {}, initial->shape, {condition, body});
  std::vector<Node*> results;
  for (size_t i = 1; i < state.size(); ++i)
    results.push_back(hlo::get_tuple_element(loop, static_cast<int64_t>(i)));
  return results;
}

}  // namespace gspmd
