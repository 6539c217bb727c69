#include "passes/differentiate/markers.h"

#include "gspmd/ops/builders.h"
#include "ops/common/batch.h"
#include "passes/batch/batcher.h"
#include "passes/differentiate/leaf_form.h"

namespace gspmd {

// The computation on the batch, all of whose results are batched. `batched`: which parameters are.
Computation* Batcher::batched_body(const Computation& body, const std::vector<bool>& batched) {
  Computation* const c = c_.module().add_computation(body.name());
  std::vector<BatchLeaf> arguments;
  for (size_t i = 0; i < batched.size(); ++i) {
    const Shape& shape = body.parameters()[i]->shape;
    arguments.push_back(
        {add_parameter(*c, batched[i] ? batched_shape(shape, options_.size) : shape, "argument"),
         batched[i]});
  }
  std::vector<Node*> results;
  for (const BatchLeaf& leaf : run(body, *c, arguments))
    results.push_back(with_batch(leaf, options_.size));
  c->set_root(hlo::tuple(*c, std::move(results)));
  return c;
}

// The rules of a custom derivative see arguments, residuals, cotangents and results that all have
// the batch; what the functions read from around them is as it is.
std::vector<BatchLeaf> Batcher::batch_marker(const Node& marker) {
  const MarkerOperands operands = operands_of(marker);
  const bool plain = marker_of(marker) == Marker::checkpoint;
  std::vector<Node*> all;
  std::vector<bool> of_arguments;
  for (const Node* argument : operands.arguments) {
    const BatchLeaf& leaf = leaves(*argument).at(0);
    of_arguments.push_back(leaf.batched || !plain);
    all.push_back(plain ? leaf.node : with_batch(leaf, options_.size));
  }
  std::vector<Computation*> called;
  for (size_t k = 0; k < marker.called.size(); ++k) {
    std::vector<bool> flags = of_arguments;
    flags.resize(marker.called[k]->parameters().size() - operands.captured[k].size(), true);
    for (const Node* captured : operands.captured[k]) {
      const BatchLeaf& leaf = leaves(*captured).at(0);
      flags.push_back(leaf.batched);
      all.push_back(leaf.node);
    }
    called.push_back(batched_body(*marker.called[k], flags));
  }
  const Shape shape = called[0]->root()->shape;
  Node* const batched = emit(c_, marker.opcode(), std::move(all), marker.attrs, shape, called);
  batched->frontend_attributes = marker.frontend_attributes;
  return leaves_of(batched, true);
}

}  // namespace gspmd
