#include "kernels/depthwise_rows.h"

#include <algorithm>
#include <optional>

#include "gspmd/base/shape.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/convolution_direct.h"

namespace gspmd {
namespace {

constexpr int64_t kMostDepthwiseTaps = 1024, kMostInnerTaps = 64;
constexpr int64_t kMostDepthwiseExtent = int64_t{1} << 30;
constexpr double kDepthwisePartFlops = 1e6;
constexpr int64_t kMostDepthwiseParts = 8;

std::optional<DepthwiseRows> depthwise_of(const ConvolutionSpec& spec) {
  if (spec.in_features != 1 || spec.batch_groups > 1 || spec.feature_groups == 1 ||
      spec.out_features != spec.feature_groups || spec.axes.empty() ||
      spec.axes.size() > kWindowAxes)
    return std::nullopt;
  if (spec.input_feature != 1 || spec.output_feature != 1) return std::nullopt;
  DepthwiseRows e;
  e.images = spec.batch;
  e.channels = spec.out_features;
  e.x_image = spec.input_batch;
  e.y_image = spec.output_batch;
  int64_t taps = 1;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    if (a.base_dilation != 1 || std::abs(a.pad_low) > kMostDepthwiseExtent) return std::nullopt;
    taps = saturating_multiply(taps, a.kernel);
    if (a.reversal) e.w_first += (a.kernel - 1) * a.kernel_step;
    e.axes[kWindowAxes - spec.axes.size() + i] = {
        a.input,           a.kernel,  a.output,     a.stride,
        a.window_dilation, a.pad_low, a.input_step, a.reversal ? -a.kernel_step : a.kernel_step,
        a.output_step};
  }
  if (taps > kMostDepthwiseTaps || spec.axes.back().kernel > kMostInnerTaps) return std::nullopt;
  return e;
}

// The kernel as rows of features, a row for each tap; `e` reads it so then.
StridedCopy packing_of(const ConvolutionSpec& spec, DepthwiseRows& e) {
  StridedCopy copy;
  copy.element_size = dtype_size(spec.operand);
  for (const ConvolutionAxis& a : spec.axes) {
    copy.dims.push_back(a.kernel);
    copy.source.push_back(a.kernel_step);
  }
  copy.dims.push_back(e.channels);
  copy.source.push_back(spec.kernel_output);
  copy.target = row_major_strides(copy.dims);
  e.w_first = 0;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const int64_t step = copy.target[i];
    const ConvolutionAxis& a = spec.axes[i];
    if (a.reversal) e.w_first += (a.kernel - 1) * step;
    e.axes[kWindowAxes - spec.axes.size() + i].w_step = a.reversal ? -step : step;
  }
  return simplified(std::move(copy));
}

}  // namespace

PreparedKernel prepare_depthwise_rows(const ConvolutionSpec& spec) {
  const DepthwiseRowsFunction function = depthwise_rows_function(spec.operand, spec.result);
  std::optional<DepthwiseRows> rows = depthwise_of(spec);
  if (function == nullptr || !rows) return {};
  PreparedKernel kernel;
  const bool is_packed = spec.kernel_output != 1;
  if (is_packed) {
    kernel.prepare_parts = 1;
    kernel.shared_bytes =
        ceil_div(rows->taps() * rows->channels * dtype_size(spec.operand), int64_t{64}) * 64;
    kernel.prepare = [copy = packing_of(spec, *rows)](const KernelArgs& args) {
      run_copy(copy, args.operands[1], args.shared);
    };
  }
  const double flops = convolution_flops(spec);
  kernel.cost = 100 + flops / 20;
  kernel.parts = std::clamp<int64_t>(static_cast<int64_t>(flops / kDepthwisePartFlops), 1,
                                     std::min(rows->rows(), kMostDepthwiseParts));
  kernel.scratch_bytes = ceil_div(depthwise_scratch_bytes(*rows), int64_t{64}) * 64;
  kernel.run = [e = *rows, function, is_packed, parts = kernel.parts](const KernelArgs& args) {
    function(e, args.part * e.rows() / parts, (args.part + 1) * e.rows() / parts, args.operands[0],
             is_packed ? args.shared : args.operands[1], args.results[0], args.scratch);
  };
  return kernel;
}

}  // namespace gspmd
