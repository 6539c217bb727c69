#include "kernels/window_planes.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "gspmd/base/shape.h"
#include "kernels/convolution_planes.h"
#include "kernels/gemm_product.h"

namespace gspmd {
namespace {

constexpr int64_t kBandBytes = 24 << 10;         // laid out at a time
constexpr int64_t kLeastBandRows = 8;            // neighbouring bands read some rows twice
constexpr int64_t kMostWindowBytes = 512 << 10;  // bytes
constexpr int64_t kMostWindowTaps = 1024;
constexpr int64_t kMostWindowExtent = int64_t{1} << 24;
constexpr double kWindowPartReads = 2e5;
constexpr int64_t kMostWindowParts = 8;

int64_t reach(const WindowPlanes::Axis& a, int64_t positions) {
  return (positions - 1) * a.stride + (a.taps - 1) * a.dilation + 1;
}

bool window_sizes_fit(const WindowPlanes& e) {
  for (const WindowPlanes::Axis& a : e.axes) {
    for (const int64_t size : {a.input, a.taps, a.positions, a.stride, a.dilation})
      if (size < 1 || size > kMostWindowExtent) return false;
    if (std::abs(a.pad) > kMostWindowExtent) return false;
    if (saturating_multiply(a.positions, a.stride) > kMostWindowExtent ||
        saturating_multiply(a.taps, a.dilation) > kMostWindowExtent)
      return false;
  }
  return saturating_multiply(saturating_multiply(e.axes[0].taps, e.axes[1].taps), e.axes[2].taps) <=
         kMostWindowTaps;
}

WindowLayout layout_of(const WindowPlanes& e, int64_t lanes, int64_t element_size) {
  const WindowPlanes::Axis &outer = e.axes[0], &middle = e.axes[1], &inner = e.axes[2];
  WindowLayout l;
  std::vector<int64_t> slots;  // of inner taps: which of the phases
  for (int64_t k = 0; k < inner.taps; ++k) {
    const int64_t phase = k * inner.dilation % inner.stride;
    const auto found = std::find_if(l.phases.begin(), l.phases.end(),
                                    [&](const auto& known) { return known.first == phase; });
    slots.push_back(found - l.phases.begin());
    if (found == l.phases.end()) l.phases.push_back({phase});
  }
  const int64_t shift = (inner.taps - 1) * inner.dilation / inner.stride;
  l.width = ceil_div(ceil_div(inner.positions, lanes) * lanes + shift, lanes) * lanes;
  for (WindowLayout::Phase& phase : l.phases) {
    const int64_t before = inner.pad - phase.first;  // elements of x from place 0
    const auto place = [&](int64_t elements) {
      return elements > 0 ? std::min(ceil_div(elements, inner.stride), l.width) : 0;
    };
    phase.begin = place(before);
    phase.end = place(inner.input + before);
    phase.from = phase.begin * inner.stride - before;
  }
  l.planes = reach(outer, outer.positions);
  const int64_t rows = kBandBytes / element_size / (l.row() * l.planes);
  const int64_t fit = (rows - reach(middle, 1)) / middle.stride + 1;
  l.bands = ceil_div(middle.positions, std::max(fit, kLeastBandRows));
  l.band = ceil_div(middle.positions, l.bands);
  l.bands = ceil_div(middle.positions, l.band);
  l.rows = reach(middle, l.band);
  for (int64_t i = 0; i < outer.taps; ++i)
    for (int64_t j = 0; j < middle.taps; ++j)
      for (int64_t k = 0; k < inner.taps; ++k)
        l.taps.push_back((i * outer.dilation * l.rows + j * middle.dilation) * l.row() +
                         slots[static_cast<size_t>(k)] * l.width +
                         k * inner.dilation / inner.stride);
  return l;
}

// Whether position n reads element n and nothing else.
bool reads_alone(const PoolAxis& axis) {
  for (size_t n = 0; n < axis.positions.size(); ++n) {
    const PoolRun& run = axis.positions[n];
    if (run.count != 1 || run.first != static_cast<int64_t>(n)) return false;
  }
  return true;
}

// Windows of one size that slide by one stride and are cut off at the ends; nullopt: they are not.
std::optional<WindowPlanes::Axis> sliding_axis(const PoolAxis& axis) {
  WindowPlanes::Axis a;
  a.positions = static_cast<int64_t>(axis.positions.size());
  a.taps = 0;
  a.x_step = axis.step;
  const auto run = [&](int64_t p) -> const PoolRun& {
    return axis.positions[static_cast<size_t>(p)];
  };
  int64_t begin = 0, end = 0;  // of the positions of the longest runs
  for (int64_t p = 0; p < a.positions; ++p) {
    const PoolRun& r = run(p);
    if (r.count == 0) continue;
    a.input = std::max(a.input, r.first + (r.count - 1) * r.step + 1);
    if (r.count > a.taps) begin = p;
    if (r.count >= a.taps) end = p;
    a.taps = std::max(a.taps, r.count);
  }
  if (a.taps == 0) return std::nullopt;
  if (a.taps > 1) a.dilation = run(begin).step;
  if (begin != end) a.stride = (run(end).first - run(begin).first) / (end - begin);
  a.pad = begin * a.stride - run(begin).first;
  if (a.stride < 1 || a.dilation < 1) return std::nullopt;
  for (int64_t p = 0; p < a.positions; ++p) {
    const PoolRun& r = run(p);
    int64_t inside = 0;
    for (int64_t k = 0; k < a.taps; ++k) {
      const int64_t at = p * a.stride + k * a.dilation - a.pad;
      if (at < 0 || at >= a.input) continue;
      if (inside >= r.count || at != r.first + inside * r.step) return std::nullopt;
      ++inside;
    }
    if (inside != r.count) return std::nullopt;
  }
  return a;
}

}  // namespace

PreparedKernel prepare_window_planes(WindowPlanes planes, DType dtype) {
  const bool weighed = !planes.w_taps.empty();
  const WindowPlanesFunction function = window_planes_function(dtype, weighed);
  if (function == nullptr || !window_sizes_fit(planes)) return {};
  const int64_t lanes = window_lanes(dtype), size = dtype_size(dtype);
  if (2 * planes.axes[2].positions < lanes || planes.planes() < 1) return {};
  const WindowLayout layout = layout_of(planes, lanes, size);
  if (saturating_multiply(saturating_multiply(layout.planes, layout.rows), layout.row()) >
      kMostWindowBytes / size)
    return {};
  const double reads = static_cast<double>(planes.planes()) *
                       static_cast<double>(planes.positions()) *
                       static_cast<double>(planes.taps() + 2);
  const int64_t units = planes.planes() * layout.bands;
  PreparedKernel kernel;
  kernel.cost = 100 + 0.1 * reads;
  kernel.parts = std::clamp<int64_t>(static_cast<int64_t>(reads / kWindowPartReads), 1,
                                     std::min(units, kMostWindowParts));
  kernel.scratch_bytes = ceil_div((layout.elements() + planes.taps()) * size, 64) * 64;
  const auto plan =
      std::make_shared<const std::pair<WindowPlanes, WindowLayout>>(std::move(planes), layout);
  kernel.run = [plan, function, units, parts = kernel.parts](const KernelArgs& args) {
    function(plan->first, plan->second, args.part * units / parts, (args.part + 1) * units / parts,
             args);
  };
  return kernel;
}

PreparedKernel prepare_depthwise_planes(const ConvolutionSpec& spec) {
  if (spec.operand != spec.result || spec.in_features != 1 || spec.batch_groups > 1 ||
      spec.feature_groups == 1 || spec.axes.empty() || spec.axes.size() > kWindowAxes)
    return {};
  if (spec.axes.back().input_step != 1 ||
      !lie_densely(spec, &ConvolutionAxis::output, &ConvolutionAxis::output_step))
    return {};
  WindowPlanes e;
  e.images = spec.batch;
  e.channels = spec.out_features;
  e.sharing = spec.out_features / spec.feature_groups;
  e.x_image = spec.input_batch;
  e.x_channel = spec.input_feature;
  e.y_image = spec.output_batch;
  e.y_channel = spec.output_feature;
  e.w_channel = spec.kernel_output;
  e.w_taps = {0};
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    if (a.base_dilation != 1 || a.kernel < 1 || a.kernel > kMostWindowTaps) return {};
    e.axes[kWindowAxes - spec.axes.size() + i] = {
        a.input, a.kernel, a.output, a.stride, a.window_dilation, a.pad_low, a.input_step};
    std::vector<int64_t> taps;
    for (const int64_t before : e.w_taps)
      for (int64_t k = 0; k < a.kernel; ++k)
        taps.push_back(before + (a.reversal ? a.kernel - 1 - k : k) * a.kernel_step);
    if (static_cast<int64_t>(taps.size()) > kMostWindowTaps) return {};
    e.w_taps = std::move(taps);
  }
  return prepare_window_planes(std::move(e), spec.operand);
}

PreparedKernel prepare_pool_planes(const PoolSpec& spec) {
  if (spec.op != PoolOp::sum || spec.inner != 1 || spec.axes.empty() || spec.axes.back().step != 1)
    return {};
  WindowPlanes e;
  size_t apart = 0;
  for (; apart + 1 < spec.axes.size() && reads_alone(spec.axes[apart]); ++apart) {
    const auto size = static_cast<int64_t>(spec.axes[apart].positions.size());
    if (apart > 0 && spec.axes[apart - 1].step != spec.axes[apart].step * size) return {};
    e.channels *= size;
    e.x_channel = spec.axes[apart].step;
  }
  const size_t axes = spec.axes.size() - apart;
  if (axes > kWindowAxes) return {};
  for (size_t i = 0; i < axes; ++i) {
    const auto axis = sliding_axis(spec.axes[apart + i]);
    if (!axis) return {};
    e.axes[kWindowAxes - axes + i] = *axis;
  }
  e.y_channel = e.positions();
  return prepare_window_planes(std::move(e), spec.dtype);
}

}  // namespace gspmd
