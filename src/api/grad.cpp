#include "gspmd/api/grad.h"

#include <algorithm>

#include "api/emit.h"
#include "gspmd/passes/differentiate/differentiate.h"
#include "ops/control/control.h"

namespace gspmd::detail {

Tensor differentiable_input(const Tensor& x, const char* op, Site site) {
  return call(op, site, [&] {
    Node* node = node_of(x);
    if (!is_floating(node->shape.dtype) && !is_complex(node->shape.dtype))
      call_error(
          "argument leaf {} is not floating; only floating and complex tensors have derivatives, "
          "close over the others",
          describe(node));
    Node* input = hlo::unary(Opcode::copy, node);
    input->frontend_attributes[kDifferentiableInput] = "true";
    return tensor_of(input);
  });
}

namespace {

Node* annotate_like(Node* gradient, const Node& annotation) {
  if (is_annotation(*gradient) && gradient->sharding == annotation.sharding) return gradient;
  return annotated_like(gradient, annotation);
}

// The gradient of an argument that is annotated lies as the argument does.
void annotate_gradients(const std::vector<Node*>& inputs, std::vector<Node*>& gradients) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node* original = inputs[i]->operand(0);
    if (!is_annotation(*original)) continue;
    Metadata metadata = original->metadata;
    const EmissionScope backward(std::move(metadata), true);
    gradients[i] = annotate_like(gradients[i], *original);
  }
}

std::vector<Node*> nodes_of(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& tensor : tensors) nodes.push_back(node_of(tensor));
  return nodes;
}

std::vector<Tensor> tensors_of(const std::vector<Node*>& nodes) {
  std::vector<Tensor> tensors;
  for (Node* node : nodes) tensors.push_back(tensor_of(node));
  return tensors;
}

// That there is one of the shape of each value.
void check_like(const char* what, const std::vector<Node*>& given, const char* of,
                const std::vector<Node*>& values) {
  if (given.size() != values.size())
    call_error("{} {}s are given for {} {}s; give a tree of the same structure", given.size(), what,
               values.size(), of);
  for (size_t i = 0; i < values.size(); ++i)
    if (!(given[i]->shape == values[i]->shape))
      call_error("{} {} is {}, the {} is {}; they must have one shape and dtype", what, i,
                 describe(given[i]), of, describe(values[i]));
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
    const std::vector<Node*> nodes = nodes_of(inputs);
    std::vector<Node*> gradients = differentiate(target, nodes);
    annotate_gradients(nodes, gradients);
    return tensors_of(gradients);
  });
}

bool emitted_here(const std::vector<Tensor>& tensors) {
  const std::shared_ptr<TraceState>& trace = current_trace();
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
    return TensorAccess::trace(tensor) != trace || !trace->active() ||
           &TensorAccess::node(tensor)->parent() == &trace->here();
  });
}

std::vector<Tensor> pull_back_inputs(const std::vector<Tensor>& results,
                                     const std::vector<Tensor>& cotangents,
                                     const std::vector<Tensor>& inputs, Site site) {
  return call("vjp", site, [&] {
    const std::vector<Node*> values = nodes_of(results);
    const std::vector<Node*> given = nodes_of(cotangents);
    const std::vector<Node*> nodes = nodes_of(inputs);
    check_like("cotangent", given, "result", values);
    std::vector<Node*> gradients = pull_back(values, given, nodes);
    annotate_gradients(nodes, gradients);
    return tensors_of(gradients);
  });
}

std::vector<Tensor> push_forward_inputs(const std::vector<Tensor>& results,
                                        const std::vector<Tensor>& inputs,
                                        const std::vector<Tensor>& tangents, Site site) {
  return call("jvp", site, [&] {
    const std::vector<Node*> nodes = nodes_of(inputs);
    const std::vector<Node*> given = nodes_of(tangents);
    check_like("tangent", given, "primal", nodes);
    return tensors_of(push_forward(nodes_of(results), nodes, given));
  });
}

}  // namespace gspmd::detail
