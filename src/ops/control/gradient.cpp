#include "ops/collective/gradient.h"

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"
#include "ops/control/control.h"
#include "ops/control/gradient.h"

namespace gspmd {

// The leaves of a tuple are those of its operands.
std::vector<Node*> tuple_gradient(Node&, const std::vector<Node*>& cotangents) {
  return cotangents;
}

std::vector<Node*> get_tuple_element_gradient(Node& node, const std::vector<Node*>& cotangents) {
  const Shape& tuple = node.operand(0)->shape;
  std::vector<Node*> result(static_cast<size_t>(leaf_count(tuple)), nullptr);
  std::copy(cotangents.begin(), cotangents.end(),
            result.begin() + first_leaf(tuple, node.attrs.index));
  return result;
}

std::vector<Node*> identity_gradient(Node&, const std::vector<Node*>& cotangents) {
  return cotangents;
}

namespace {

// The halves of f64 are its f32 and what f32 leaves of it. The first is differentiated as if it
// were not rounded; then the other one is constant.
Node* cotangent_of_half(Node& node, Node* cotangent) {
  if (is_custom_call(node, "X64SplitLow")) return nullptr;
  return hlo::convert(cotangent, node.operand(0)->shape.dtype);
}

}  // namespace

std::vector<Node*> custom_call_gradient(Node& node, const std::vector<Node*>& cotangents) {
  if (is_identity_call(node)) return cotangents;
  if (is_debug_call(node)) return std::vector<Node*>(node.operands().size(), nullptr);
  if (is_region_border(node)) return {region_gradient(node, cotangents[0])};
  if (is_elementwise_call(node))
    return std::vector<Node*>(node.operands().size(), cotangent_of_half(node, cotangents[0]));
  user_error("custom-call: \"{}\" has no gradient: target \"{}\" is not known", node.name(),
             *node.attrs.custom_call_target);
}

// Of after-all and the like, and of the copy that copy-start makes.
std::vector<Node*> first_operand_gradient(Node& node, const std::vector<Node*>& cotangents) {
  std::vector<Node*> result;
  for (const Node* operand : node.operands())
    result.resize(result.size() + static_cast<size_t>(leaf_count(operand->shape)), nullptr);
  if (!result.empty()) result[0] = cotangents[0];
  return result;
}

// The result of copy-start is (copy, original, context).
std::vector<Node*> copy_start_gradient(Node&, const std::vector<Node*>& cotangents) {
  std::vector<Node*> given;
  for (Node* cotangent : {cotangents[0], cotangents[1]})
    if (cotangent != nullptr) given.push_back(cotangent);
  return {given.empty() ? nullptr : sum_of_cotangents(given)};
}

}  // namespace gspmd
