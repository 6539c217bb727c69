#include "gspmd/kernels/pool.h"

#include <algorithm>

#include "kernels/pool_lines.h"

namespace gspmd {

PreparedKernel prepare_pool(PoolSpec spec) {
  const PoolFunctions functions = pool_functions(spec.dtype, spec.op);
  const PoolFunction function = functions.window;
  if (function == nullptr) return {};
  if (functions.line != nullptr)
    if (const auto line = pool_line_of(spec)) return prepare_pool_lines(spec, *line, functions);
  const auto plan = std::make_shared<const PoolPlan>(std::move(spec));
  const int64_t size = dtype_size(plan->spec().dtype);
  const int64_t whole = plan->turns() ? plan->groups() : plan->positions();
  PreparedKernel kernel;
  kernel.cost = 100 + 0.3 * plan->reads();
  kernel.parts = plan->reads() > kPoolSplitReads ? std::min<int64_t>(whole, 8) : 1;
  const int64_t lanes = plan->most_lanes(),
                in_bytes = pool_scratch(plan->plane_in() * lanes * size);
  if (plan->turns())
    kernel.scratch_bytes = in_bytes + pool_scratch(plan->plane_out() * lanes * size);
  const auto run = [plan, function, size](const std::byte* in, int64_t side_by_side, int64_t first,
                                          int64_t last, const std::byte* init, std::byte* out) {
    const int64_t row = plan->spec().inner * side_by_side * size;
    plan->for_each_window(in, side_by_side, first, last,
                          [&](const PoolWindow& window, int64_t position, int64_t) {
                            function(window, init, out + position * row);
                          });
  };
  kernel.run = [=, parts = kernel.parts](const KernelArgs& args) {
    const int64_t begin = args.part * whole / parts, end = (args.part + 1) * whole / parts;
    if (!plan->turns())
      return run(args.operands[0], 1, begin, end, args.operands[1], args.results[0]);
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = plan->first_plane(group), count = plan->first_plane(group + 1) - first;
      std::byte* const out = args.scratch + in_bytes;
      turn_planes(size, plan->plane_in(), count, false,
                  args.operands[0] + first * plan->plane_in() * size, args.scratch);
      run(args.scratch, count, 0, plan->positions(), args.operands[1], out);
      turn_planes(size, plan->plane_out(), count, true, out,
                  args.results[0] + first * plan->plane_out() * size);
    }
  };
  return kernel;
}

}  // namespace gspmd
