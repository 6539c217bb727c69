#include "gspmd/kernels/pool.h"

#include <algorithm>
#include <optional>

#include "kernels/pool_lines.h"
#include "kernels/window_planes.h"

namespace gspmd {

PreparedKernel prepare_pool(PoolSpec spec) {
  const PoolFunctions functions = pool_functions(spec.dtype, spec.op);
  const PoolFunction function = functions.window;
  if (function == nullptr) return {};
  if (functions.line != nullptr)
    if (const auto line = pool_line_of(spec)) return prepare_pool_lines(spec, *line, functions);
  if (PreparedKernel planes = prepare_pool_planes(spec); planes.run) return planes;
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
  const auto into = [=](const std::byte* init, std::byte* out, int64_t row) {
    return [=](const PoolWindow& window, int64_t position, int64_t) {
      function(window, init, out + position * row);
    };
  };
  kernel.run = [=, parts = kernel.parts](const KernelArgs& args) {
    const int64_t begin = args.part * whole / parts, end = (args.part + 1) * whole / parts;
    const int64_t row = plan->spec().inner * size;
    if (!plan->turns())
      return plan->for_each_window(args.operands[0], 1, begin, end,
                                   into(args.operands[1], args.results[0], row));
    std::optional<PoolOffsets> offsets;
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = plan->first_plane(group), count = plan->first_plane(group + 1) - first;
      std::byte* const out = args.scratch + in_bytes;
      turn_planes(size, plan->plane_in(), count, false,
                  args.operands[0] + first * plan->plane_in() * size, args.scratch);
      if (!offsets || offsets->lanes() != count) offsets.emplace(plan->spec(), count, 0);
      plan->for_all_windows(args.scratch, *offsets, into(args.operands[1], out, row * count));
      turn_planes(size, plan->plane_out(), count, true, out,
                  args.results[0] + first * plan->plane_out() * size);
    }
  };
  return kernel;
}

}  // namespace gspmd
