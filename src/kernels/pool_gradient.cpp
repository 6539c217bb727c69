#include <algorithm>
#include <cstring>

#include "gspmd/kernels/pool.h"
#include "kernels/pool_windows.h"

namespace gspmd {
namespace {

// Whether position n of the outermost axis reads element n and nothing else, and every element is
// read.
bool may_lie_apart(const PoolAxis& axis, int64_t elements) {
  if (axis.step * static_cast<int64_t>(axis.positions.size()) != elements) return false;
  for (size_t n = 0; n < axis.positions.size(); ++n) {
    const PoolRun& run = axis.positions[n];
    if (run.count != 1 || run.first != static_cast<int64_t>(n)) return false;
  }
  return true;
}

void fill_plane(DType dtype, const std::byte* value, std::byte* out, int64_t count) {
  if (dtype == DType::f32)
    std::fill_n(reinterpret_cast<float*>(out), count, *reinterpret_cast<const float*>(value));
  else
    std::fill_n(reinterpret_cast<double*>(out), count, *reinterpret_cast<const double*>(value));
}

struct Gradient {
  PoolPlan plan;
  PoolGradientFunction function;
  int64_t size;      // of an element, in bytes
  int64_t elements;  // of the result
  int64_t cuts;      // pieces with elements of their own: of the outermost axis, or groups

  // Adds the source rows of positions [first, last) into `out`.
  void add(const std::byte* in, const std::byte* source, std::byte* out, int64_t lanes,
           int64_t first, int64_t last) const {
    const int64_t row = plan.spec().inner * lanes * size;
    plan.for_each_window(in, lanes, first, last,
                         [&](const PoolWindow& window, int64_t position, int64_t offset) {
                           function(window, source + position * row, out + offset * size);
                         });
  }

  void run_group(const KernelArgs& args, int64_t group) const {
    const int64_t first = plan.first_plane(group), lanes = plan.first_plane(group + 1) - first;
    const int64_t in_bytes = plan.plane_in() * size, out_bytes = plan.plane_out() * size;
    std::byte* const in = args.scratch;
    std::byte* const out = in + pool_scratch(in_bytes * plan.most_lanes());
    std::byte* const source = out + pool_scratch(in_bytes * plan.most_lanes());
    turn_planes(size, plan.plane_in(), lanes, false, args.operands[0] + first * in_bytes, in);
    turn_planes(size, plan.plane_out(), lanes, false, args.operands[1] + first * out_bytes, source);
    fill_plane(plan.spec().dtype, args.operands[2], out, plan.plane_in() * lanes);
    add(in, source, out, lanes, 0, plan.positions());
    turn_planes(size, plan.plane_in(), lanes, true, out, args.results[0] + first * in_bytes);
  }

  void run(const KernelArgs& args, int64_t begin, int64_t end) const {
    if (plan.turns()) {
      for (int64_t group = begin; group < end; ++group) run_group(args, group);
      return;
    }
    const int64_t piece = elements / cuts, positions = plan.positions() / cuts;
    // Piece by piece, so that what is filled is still in cache when it is added to.
    for (int64_t cut = begin; cut < end; ++cut) {
      fill_plane(plan.spec().dtype, args.operands[2], args.results[0] + cut * piece * size, piece);
      add(args.operands[0], args.operands[1], args.results[0], 1, cut * positions,
          (cut + 1) * positions);
    }
  }
};

}  // namespace

PreparedKernel prepare_pool_gradient(PoolSpec spec, int64_t elements) {
  const PoolGradientFunction function = pool_gradient_function(spec.dtype);
  if (function == nullptr) return {};
  const bool apart = !spec.axes.empty() && may_lie_apart(spec.axes[0], elements);
  if (!apart && !spec.axes.empty() && elements > 0) {
    // Not all elements belong to a plane: no planes are told apart.
    PoolAxis one{elements, {{0, 1, 1}}};
    spec.axes.insert(spec.axes.begin(), std::move(one));
  }
  const int64_t size = dtype_size(spec.dtype);
  const int64_t outermost = apart ? static_cast<int64_t>(spec.axes[0].positions.size()) : 1;
  auto gradient = std::make_shared<Gradient>(
      Gradient{PoolPlan(std::move(spec)), function, size, elements, outermost});
  const PoolPlan& plan = gradient->plan;
  if (plan.turns()) gradient->cuts = plan.groups();
  PreparedKernel kernel;
  kernel.cost = 100 + 0.6 * plan.reads();
  kernel.parts = plan.reads() > kPoolSplitReads ? std::min<int64_t>(gradient->cuts, 8) : 1;
  if (plan.turns())
    kernel.scratch_bytes = 2 * pool_scratch(plan.plane_in() * plan.most_lanes() * size) +
                           pool_scratch(plan.plane_out() * plan.most_lanes() * size);
  kernel.run = [gradient = std::shared_ptr<const Gradient>(std::move(gradient)),
                parts = kernel.parts](const KernelArgs& args) {
    gradient->run(args, args.part * gradient->cuts / parts,
                  (args.part + 1) * gradient->cuts / parts);
  };
  return kernel;
}

}  // namespace gspmd
