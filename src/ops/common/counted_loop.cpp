#include "gspmd/ops/counted_loop.h"

#include "ops/common/in_dim.h"

namespace gspmd {
namespace {

Dims one_step(const Shape& shape) {
  Dims dims = shape.dims;
  dims.insert(dims.begin(), 1);
  return dims;
}

std::vector<Node*> starts_at(Node* step, int64_t rank) {
  std::vector<Node*> starts(static_cast<size_t>(rank) + 1,
                            hlo::scalar(step->parent(), step->shape.dtype, 0));
  starts[0] = step;
  return starts;
}

}  // namespace

Node* emit_loop(Computation& outer, const std::string& name, int64_t trips,
                std::vector<Node*> state, const LoopStep& step) {
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
  return emit(outer, Opcode::while_, {initial}, {}, initial->shape, {condition, body});
}

std::vector<Node*> state_after_loop(Computation& outer, const std::string& name, int64_t trips,
                                    std::vector<Node*> state, const LoopStep& step) {
  if (trips < 1) return state;
  std::vector<Node*> results = elements_of(emit_loop(outer, name, trips, std::move(state), step));
  results.erase(results.begin());
  return results;
}

Node* write_step(Node* all, Node* slice, Node* step) {
  return hlo::dynamic_update_slice(all, hlo::reshape(slice, one_step(slice->shape)),
                                   starts_at(step, slice->rank()));
}

Node* read_step(Node* all, const Shape& slice, Node* step) {
  return hlo::reshape(hlo::dynamic_slice(all, starts_at(step, slice.rank()), one_step(slice)),
                      slice.dims);
}

}  // namespace gspmd
