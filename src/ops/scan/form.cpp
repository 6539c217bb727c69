#include "ops/scan/form.h"

#include "gspmd/ops/builders.h"
#include "gspmd/ops/counted_loop.h"
#include "ops/scan/scan.h"

namespace gspmd {
namespace {

Dims with_dim(Dims dims, int64_t dim, int64_t size) {
  dims.insert(dims.begin() + dim, size);
  return dims;
}

std::vector<Node*> starts_at(Node* step, int64_t dim, int64_t rank) {
  std::vector<Node*> starts(static_cast<size_t>(rank),
                            hlo::scalar(step->parent(), step->shape.dtype, 0));
  starts[static_cast<size_t>(dim)] = step;
  return starts;
}

}  // namespace

// A loop whose state is carries, outputs and inputs.
Node* scan_form(Node& node) {
  const ScanParts parts = scan_parts(node);
  Computation& outer = node.parent();
  const std::vector<Shape> shapes = scan_results(node.shape);
  const auto inputs = static_cast<size_t>(parts.inputs),
             carries = static_cast<size_t>(parts.carries);
  const auto outputs = static_cast<size_t>(parts.outputs);
  std::vector<Node*> state(node.operands().begin() + parts.inputs, node.operands().end());
  for (size_t i = 0; i < outputs; ++i) state.push_back(hlo::splat(outer, shapes[i], 0));
  state.insert(state.end(), node.operands().begin(), node.operands().begin() + parts.inputs);
  const auto step = [&](Computation& body, const std::vector<Node*>& now, Node* iteration) {
    Node* at = iteration;
    if (node.attrs.scalar->is_reverse)
      at = hlo::subtract(hlo::scalar(body, DType::s32, static_cast<double>(parts.length - 1)), at);
    std::vector<Node*> arguments;
    for (size_t i = 0; i < inputs; ++i) {
      Node* const whole = now[carries + outputs + i];
      Dims dims = whole->dims();
      dims.erase(dims.begin() + parts.dim);
      Node* const slice = hlo::dynamic_slice(whole, starts_at(at, parts.dim, whole->rank()),
                                             with_dim(dims, parts.dim, 1));
      arguments.push_back(hlo::reshape(slice, dims));
    }
    arguments.insert(arguments.end(), now.begin(), now.begin() + parts.carries);
    const std::vector<Node*> returned =
        hlo::leaves(inline_computation(*node.called[0], body, arguments));
    std::vector<Node*> next(returned.begin() + parts.outputs, returned.end());
    for (size_t i = 0; i < outputs; ++i) {
      Node* const all = now[carries + i];
      Node* const slice = hlo::reshape(returned[i], with_dim(returned[i]->dims(), parts.dim, 1));
      next.push_back(hlo::dynamic_update_slice(all, slice, starts_at(at, parts.dim, all->rank())));
    }
    next.insert(next.end(), now.begin() + parts.carries + parts.outputs, now.end());
    return next;
  };
  const std::vector<Node*> last =
      state_after_loop(outer, node.called[0]->name(), parts.length, std::move(state), step);
  std::vector<Node*> results(last.begin() + parts.carries,
                             last.begin() + parts.carries + parts.outputs);
  results.insert(results.end(), last.begin(), last.begin() + parts.carries);
  return node.shape.is_tuple ? hlo::tuple(outer, std::move(results)) : results.at(0);
}

}  // namespace gspmd
