#include "ops/common/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/control/control.h"

namespace gspmd {
namespace {

bool carries_cotangent(const Shape& shape) { return shape.is_tuple || is_floating(shape.dtype); }

Node* zeros_of(Computation& c, const Shape& shape) {
  if (!shape.is_tuple) return hlo::splat(c, shape, 0);
  std::vector<Node*> elements;
  for (const Shape& element : shape.elements) elements.push_back(zeros_of(c, element));
  return hlo::tuple(c, std::move(elements));
}

}  // namespace

std::vector<Node*> tuple_gradient(Node& node, Node* cotangent) {
  std::vector<Node*> elements;
  for (size_t i = 0; i < node.operands().size(); ++i)
    elements.push_back(carries_cotangent(node.operands()[i]->shape)
                           ? hlo::get_tuple_element(cotangent, static_cast<int64_t>(i))
                           : nullptr);
  return elements;
}

// A tuple of zeros but for this element.
std::vector<Node*> get_tuple_element_gradient(Node& node, Node* cotangent) {
  if (!carries_cotangent(node.shape)) return {nullptr};
  std::vector<Node*> elements;
  const std::vector<Shape>& shapes = node.operand(0)->shape.elements;
  for (size_t i = 0; i < shapes.size(); ++i)
    elements.push_back(static_cast<int64_t>(i) == node.attrs.index
                           ? cotangent
                           : zeros_of(node.parent(), shapes[i]));
  return {hlo::tuple(node.parent(), std::move(elements))};
}

std::vector<Node*> optimization_barrier_gradient(Node& node, Node* cotangent) {
  return {carries_cotangent(node.shape) ? cotangent : nullptr};
}

// A Sharding op says where a value is; its cotangent should be there too.
std::vector<Node*> custom_call_gradient(Node& node, Node* cotangent) {
  const bool placed_here = node.attrs.custom_call_target == "Sharding";
  if (!placed_here && is_identity_call(node))
    return {carries_cotangent(node.shape) ? cotangent : nullptr};
  if (!placed_here)
    user_error("custom-call: \"{}\" has no gradient: target \"{}\" is not known", node.name(),
               node.attrs.custom_call_target);
  if (!carries_cotangent(node.shape)) return {nullptr};
  Node* const placed =
      emit(node.parent(), Opcode::custom_call, {cotangent}, node.attrs, cotangent->shape);
  placed->sharding = node.sharding;
  placed->frontend_attributes = node.frontend_attributes;
  return {placed};
}

}  // namespace gspmd
