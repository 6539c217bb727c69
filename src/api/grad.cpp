#include "gspmd/api/grad.h"

#include "api/emit.h"
#include "gspmd/passes/differentiate/differentiate.h"

namespace gspmd::detail {

Tensor differentiable_input(const Tensor& x, Site site) {
  return call("value_and_grad", site, [&] {
    Node* node = node_of(x);
    if (!is_floating(node->shape.dtype))
      call_error(
          "argument leaf {} is not floating; only floating tensors have gradients, close over "
          "the others",
          describe(node));
    return tensor_of(hlo::unary(Opcode::copy, node));
  });
}

namespace {

bool is_annotation(const Node& node) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
}

Node* annotate_like(Node* gradient, const Node& annotation) {
  if (is_annotation(*gradient) && gradient->sharding == annotation.sharding) return gradient;
  Node* node =
      emit(gradient->parent(), Opcode::custom_call, {gradient}, annotation.attrs, gradient->shape);
  node->sharding = annotation.sharding;
  return node;
}

}  // namespace

std::vector<Tensor> differentiate_inputs(const Tensor& loss, const std::vector<Tensor>& inputs,
                                         Site site) {
  return call("value_and_grad", site, [&] {
    Node* target = node_of(loss);
    if (target->rank() != 0 || !is_floating(target->shape.dtype))
      call_error(
          "the function returns {}; the loss must be a floating scalar, reduce it with sum() or "
          "mean()",
          describe(target));
    std::vector<Node*> nodes;
    for (const Tensor& input : inputs) nodes.push_back(node_of(input));
    std::vector<Node*> gradients = differentiate(target, nodes);
    Computation& entry = target->parent();
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node* original = nodes[i]->operand(0);
      if (is_annotation(*original)) {
        Metadata metadata = original->metadata;
        const EmissionScope backward(std::move(metadata), true);
        gradients[i] = annotate_like(gradients[i], *original);
      }
    }
    // The copies have marked what counts as a use of the argument; now they only stand in the way.
    for (Node* copy : nodes) entry.replace_uses(copy, copy->operand(0));
    std::vector<Tensor> result;
    for (Node* gradient : gradients) {
      Node* node = gradient;
      for (Node* copy : nodes)
        if (node == copy) node = copy->operand(0);
      result.push_back(tensor_of(node));
    }
    return result;
  });
}

}  // namespace gspmd::detail
