#include "gspmd/passes/differentiate/differentiate.h"

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "passes/differentiate/forward.h"
#include "passes/differentiate/reverse.h"

namespace gspmd {
namespace {

void check_input(const Node& input, const Computation& c) {
  if (&input.parent() != &c)
    user_error("differentiate: input {} is not in the computation of the result", described(input));
  if (input.shape.is_tuple || !has_derivative(input.shape.dtype))
    user_error("differentiate: input {} is not a floating or complex array", described(input));
}

void check_loss(const Node& loss) {
  if (loss.shape.is_tuple || loss.rank() != 0 || !is_floating(loss.shape.dtype))
    user_error("differentiate: the loss {} is not a floating scalar; reduce it with a sum or mean",
               described(loss));
}

}  // namespace

std::vector<Node*> pull_back(std::span<Node* const> results, std::span<Node* const> cotangents,
                             std::span<Node* const> inputs) {
  std::vector<Node*> gradients;
  if (inputs.empty()) return gradients;
  Computation& c = inputs[0]->parent();
  for (const Node* input : inputs) at_node(*input, [&] { check_input(*input, c); });
  std::vector<Seed> seeds;
  for (size_t i = 0; i < results.size(); ++i) seeds.push_back({results[i], cotangents[i]});
  gradients = Reverse(c, std::move(seeds), inputs).run();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (gradients[i] != nullptr) continue;
    const EmissionScope scope(inputs[i]->metadata, true);
    gradients[i] = hlo::splat(c, inputs[i]->shape, 0);
  }
  return gradients;
}

std::vector<Node*> differentiate(Node* loss, std::span<Node* const> inputs) {
  at_node(*loss, [&] { check_loss(*loss); });
  for (const Node* input : inputs) at_node(*input, [&] { check_input(*input, loss->parent()); });
  const EmissionScope scope(loss->metadata, true);
  Node* const one = hlo::scalar(loss->parent(), loss->shape.dtype, 1);
  return pull_back(std::span(&loss, 1), std::span(&one, 1), inputs);
}

std::vector<Node*> push_forward(std::span<Node* const> results, std::span<Node* const> inputs,
                                std::span<Node* const> tangents) {
  std::vector<Node*> pushed;
  if (results.empty()) return pushed;
  Computation& c = results[0]->parent();
  for (const Node* input : inputs) at_node(*input, [&] { check_input(*input, c); });
  Forward forward(c, inputs, tangents);
  forward.run(results);
  for (Node* result : results) {
    Node* const tangent = forward.tangent(result);
    pushed.push_back(tangent != nullptr ? tangent : hlo::splat(c, result->shape, 0));
  }
  return pushed;
}

}  // namespace gspmd
