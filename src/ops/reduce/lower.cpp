#include "kernels/reduce_lines.h"
#include "kernels/reduce_rows.h"
#include "ops/common/loop_lowering.h"
#include "ops/reduce/called_reduce.h"
#include "ops/reduce/reduce.h"

namespace gspmd {

namespace {

PreparedKernel lower_any_combiner(const Node& node) {
  PreparedKernel kernel = prepare_extreme_place(node);
  return kernel.run ? kernel : prepare_called_reduce(node);
}

}  // namespace

// Along neighbouring dims with others behind them, row by row; along short ones that are innermost,
// several lines at once; else as a loop program. By combiners that are no op: many results at once.
PreparedKernel lower_reduce(const Node& node) {
  const Shape& x = node.operand(0)->shape;
  const std::optional<LoopOp> op = loop_op(node);
  if (node.operands().size() != 2 || !op) return lower_any_combiner(node);
  if (x.dtype != node.shape.dtype) return lower_loop_node(node);
  ReduceRows spec;
  spec.dtype = x.dtype;
  spec.reduce = *op;
  std::vector<bool> reduced(x.dims.size(), false);
  for (const int64_t d : node.attrs.dimensions) reduced[static_cast<size_t>(d)] = true;
  size_t d = 0;
  for (; d < reduced.size() && !reduced[d]; ++d) spec.outer *= x.dims[d];
  for (; d < reduced.size() && reduced[d]; ++d) spec.rows *= x.dims[d];
  for (; d < reduced.size() && !reduced[d]; ++d) spec.inner *= x.dims[d];
  if (d == reduced.size() && x.elements_count() > 0) {
    if (PreparedKernel kernel = prepare_reduce_rows(spec); kernel.run) return kernel;
    if (spec.inner == 1)
      if (PreparedKernel kernel =
              prepare_reduce_lines(spec.dtype, spec.reduce, spec.outer, spec.rows);
          kernel.run)
        return kernel;
  }
  return lower_loop_node(node);
}

}  // namespace gspmd
