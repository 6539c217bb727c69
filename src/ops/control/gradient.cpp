#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/control/control.h"

namespace gspmd {

// The leaves of a tuple are those of its operands.
std::vector<Node*> tuple_gradient(Node&, const std::vector<Node*>& cotangents) {
  return cotangents;
}

std::vector<Node*> get_tuple_element_gradient(Node& node, const std::vector<Node*>& cotangents) {
  const Shape& tuple = node.operand(0)->shape;
  std::vector<Node*> result(static_cast<size_t>(leaf_count(tuple)), nullptr);
  std::ptrdiff_t first = 0;
  for (int64_t i = 0; i < node.attrs.index; ++i)
    first += static_cast<std::ptrdiff_t>(leaf_count(tuple.elements[static_cast<size_t>(i)]));
  std::copy(cotangents.begin(), cotangents.end(), result.begin() + first);
  return result;
}

std::vector<Node*> identity_gradient(Node&, const std::vector<Node*>& cotangents) {
  return cotangents;
}

std::vector<Node*> custom_call_gradient(Node& node, const std::vector<Node*>& cotangents) {
  if (!is_identity_call(node))
    user_error("custom-call: \"{}\" has no gradient: target \"{}\" is not known", node.name(),
               node.attrs.custom_call_target);
  return cotangents;
}

}  // namespace gspmd
