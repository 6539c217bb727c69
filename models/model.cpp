#include "models/model.h"

namespace gspmd::models {

Leaves<Array> Model::initial_state() const {
  Leaves<Array> state;
  for (const auto& [path, shape] : state_shapes()) state.emplace_back(path, Array(shape));
  return state;
}

Leaves<Tensor> Model::evaluate(const Leaves<Tensor>& /*params*/, const Leaves<Tensor>& /*state*/,
                               const Leaves<Tensor>& /*batch*/, const Tensor& /*weight*/) const {
  return {};
}

int64_t elements_count(const Leaves<Shape>& shapes) {
  int64_t count = 0;
  for (const auto& [path, shape] : shapes) count += shape.elements_count();
  return count;
}

void detail::paths_differ(const std::string& wanted, const std::string& given) {
  if (wanted.empty()) user_error("model: there is no leaf \"{}\" in its tree", given);
  if (given.empty()) user_error("model: the leaf \"{}\" is missing", wanted);
  user_error("model: the leaf \"{}\" stands where \"{}\" belongs; keep the order of the tree",
             given, wanted);
}

}  // namespace gspmd::models
