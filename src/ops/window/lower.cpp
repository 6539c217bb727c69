#include "gspmd/kernels/pool.h"
#include "gspmd/ops/builders.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

// Windows larger than this that overlap are cheaper where each builds on the one before
// (evaluation).
constexpr int64_t kLargestWindow = 256;

std::optional<PoolOp> pool_op(const Computation& computation) {
  const std::optional<Combiner> combiner = recognize_combiner(computation);
  if (combiner == Combiner::sum) return PoolOp::sum;
  if (combiner == Combiner::max) return PoolOp::max;
  if (combiner == Combiner::min) return PoolOp::min;
  return std::nullopt;
}

void set_axes(PoolSpec& spec, const std::vector<WindowDim>& window, const Dims& input,
              const Dims& positions) {
  const Dims steps = row_major_strides(input);
  size_t axes = input.size();
  while (axes > 0 && is_trivial(window[axes - 1])) spec.inner *= input[--axes];
  for (size_t d = 0; d < axes; ++d) {
    PoolAxis axis{steps[d], {}};
    for (const WindowRun& run : window_runs(window[d], input[d], positions[d]))
      axis.positions.push_back({run.input_first, run.input_step, run.count});
    spec.axes.push_back(std::move(axis));
  }
}

// select(a, b) = a >= b.
bool keeps_largest(const Computation& select) {
  const Node* const root = select.root();
  return root->is(Opcode::compare) && root->attrs.direction == Direction::ge &&
         root->attrs.compare_type != "TOTALORDER" && select.parameters().size() == 2 &&
         root->operand(0) == select.parameters()[0] && root->operand(1) == select.parameters()[1];
}

}  // namespace

PreparedKernel lower_select_and_scatter(const Node& node) {
  const Node& source = *node.operand(1);
  if (node.shape.elements_count() == 0 || source.shape.elements_count() == 0) return {};
  if (!keeps_largest(*node.called[0]) || recognize_combiner(*node.called[1]) != Combiner::sum)
    return {};
  PoolSpec spec;
  spec.dtype = node.shape.dtype;
  set_axes(spec, node.attrs.window, node.dims(), source.dims());
  return prepare_pool_gradient(std::move(spec), node.shape.elements_count());
}

PreparedKernel lower_reduce_window(const Node& node) {
  if (leaf_shapes(node.shape)[0].elements_count() == 0) return {};
  if (node.operands().size() != 2 || node.shape.is_tuple || is_complex(node.shape.dtype) ||
      !recognize_combiner(*node.called[0]))
    return lower_called_window(node);
  if (PreparedKernel kernel = lower_cumulative(node); kernel.run) return kernel;
  const std::optional<PoolOp> op = pool_op(*node.called[0]);
  if (!op) return {};
  PoolSpec spec;
  spec.dtype = node.shape.dtype;
  spec.op = *op;
  int64_t elements = 1;
  for (const WindowDim& dim : node.attrs.window) elements = saturating_multiply(elements, dim.size);
  if (elements > kLargestWindow) return {};
  set_axes(spec, node.attrs.window, node.operand(0)->dims(), node.dims());
  return prepare_pool(std::move(spec));
}

}  // namespace gspmd
