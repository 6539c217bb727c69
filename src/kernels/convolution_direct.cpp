#include "kernels/convolution_direct.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "gspmd/base/shape.h"
#include "kernels/summed_parts.h"

namespace gspmd {
namespace {

constexpr double kDirectPartFlops = 8e6;
constexpr int64_t kMostDirectParts = 4;
constexpr int64_t kLeastRow = 4;  // positions; below, the start of a row costs more than its sums
constexpr int64_t kLeastFeatures = 8;
// Features of each of several groups: of fewer others are as fast or faster (group_planes.h). A
// gradient has two vectors of them.
constexpr int64_t kLeastOfGroup = 32;
constexpr int64_t kLeastGroupVectors = 2;
// With fewer features than these, by lanes of a vector, or plain products, the library's are as
// fast or faster.
struct LeastFeatures {
  int64_t lanes, in, out;
};
constexpr LeastFeatures kFewestFeatures[] = {{8, 32, 16}, {16, 128, 64}};
// Kernels up to this size are packed by parts of the positions, larger ones by parts of the
// columns.
constexpr int64_t kPackedBytes = int64_t{1} << 20;
// Results up to this size are summed from parts of the rows, which then read everything once;
// larger ones are cut into columns first.
constexpr int64_t kDirectSummedBytes = int64_t{1} << 20;

// Groups that are computed one by one: what is from one to the next, in elements.
struct DirectGroups {
  int64_t count = 1, x = 0, w = 0, y = 0;
};

DirectGroups groups_of(const ConvolutionSpec& spec) {
  DirectGroups groups;
  groups.count = spec.feature_groups * spec.batch_groups;
  const int64_t out = spec.out_features / groups.count;
  groups.x =
      spec.batch_groups > 1 ? spec.batch * spec.input_batch : spec.in_features * spec.input_feature;
  groups.w = out * spec.kernel_output;
  groups.y = out * spec.output_feature;
  return groups;
}

std::optional<KernelGradient> gradient_of(const ConvolutionSpec& spec) {
  if (spec.operand != DType::f32 || spec.result != DType::f32 || spec.axes.empty() ||
      spec.axes.size() > kDirectAxes)
    return std::nullopt;
  const DirectGroups groups = groups_of(spec);
  const int64_t out = spec.out_features / groups.count;
  if (spec.feature_groups > 1 || spec.axes.back().kernel < kLeastRow ||
      out < (groups.count > 1 ? kLeastGroupVectors * direct_lanes() : kLeastFeatures))
    return std::nullopt;
  if (spec.input_batch != 1 || spec.kernel_output != 1 || spec.output_feature != 1)
    return std::nullopt;
  KernelGradient gradient;
  gradient.images = spec.in_features;
  gradient.in = spec.batch;
  gradient.out = out;
  gradient.x_image = spec.input_feature;
  gradient.g_image = spec.kernel_input;
  gradient.c_row = spec.output_batch;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    if (a.base_dilation != 1 || a.reversal) return std::nullopt;
    gradient.axes[kDirectAxes - spec.axes.size() + i] = {
        a.input,   a.output,     a.kernel,      a.window_dilation, a.stride,
        a.pad_low, a.input_step, a.kernel_step, a.output_step};
  }
  return gradient;
}

// Which part of the columns, and of the rows, each part is.
struct Cut {
  int64_t columns = 1, rows = 1;
};

int64_t parts_of_direct(double flops) {
  return std::clamp<int64_t>(static_cast<int64_t>(flops / kDirectPartFlops), 1, kMostDirectParts);
}

Cut cut_of(const KernelGradient& e, double flops, int64_t result_bytes) {
  const int64_t parts = parts_of_direct(flops);
  Cut cut;
  if (result_bytes > kDirectSummedBytes)
    cut.columns = std::min(parts, ceil_div(e.out, gradient_strip()));
  cut.rows = std::min(parts / cut.columns, e.rows());
  return cut;
}

// Where the columns of a part begin, of so many columns in all.
int64_t column_of(const Cut& cut, int64_t part, int64_t columns) {
  const int64_t strip = gradient_strip(), strips = ceil_div(columns, strip);
  return std::min(columns, part * strips / cut.columns * strip);
}

GradientPart part_at(const KernelGradient& e, const Cut& cut, int64_t part) {
  const int64_t column = part % cut.columns, row = part / cut.columns;
  return {row * e.rows() / cut.rows, (row + 1) * e.rows() / cut.rows, column_of(cut, column, e.out),
          column_of(cut, column + 1, e.out)};
}

// Of one tap for each element of the input.
bool is_product(const ConvolutionSpec& spec) {
  return std::all_of(spec.axes.begin(), spec.axes.end(), [](const ConvolutionAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.base_dilation == 1;
  });
}

bool is_faster_than_library(const ConvolutionSpec& spec) {
  const int64_t groups = spec.feature_groups * spec.batch_groups;
  return !is_product(spec) && std::any_of(std::begin(kFewestFeatures), std::end(kFewestFeatures),
                                          [&](const LeastFeatures& least) {
                                            return direct_lanes() == least.lanes &&
                                                   spec.in_features >= least.in &&
                                                   spec.out_features / groups >= least.out;
                                          });
}

std::optional<DirectConvolution> convolution_of(const ConvolutionSpec& spec) {
  if (spec.operand != DType::f32 || spec.result != DType::f32 || spec.axes.empty() ||
      spec.axes.size() > kDirectAxes)
    return std::nullopt;
  const int64_t groups = spec.feature_groups * spec.batch_groups;
  if (!is_faster_than_library(spec) || (groups > 1 && (spec.out_features / groups < kLeastOfGroup ||
                                                       spec.in_features < kLeastOfGroup)))
    return std::nullopt;
  if (spec.input_feature != 1 || spec.output_feature != 1) return std::nullopt;
  DirectConvolution e;
  e.images = spec.batch;
  e.in = spec.in_features;
  e.out = spec.out_features / groups;
  e.x_image = spec.input_batch;
  e.y_image = spec.output_batch;
  e.w_in = spec.kernel_input;
  e.w_out = spec.kernel_output;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    if (a.reversal) e.w_first += (a.kernel - 1) * a.kernel_step;
    e.axes[kDirectAxes - spec.axes.size() + i] = {
        a.input,      a.kernel,          a.output,
        a.stride,     a.window_dilation, a.base_dilation,
        a.pad_low,    a.input_step,      a.reversal ? -a.kernel_step : a.kernel_step,
        a.output_step};
  }
  return e;
}

}  // namespace

PreparedKernel prepare_direct_convolution(const ConvolutionSpec& spec) {
  const std::optional<DirectConvolution> convolution = convolution_of(spec);
  if (!convolution) return {};
  const DirectConvolution& e = *convolution;
  const double flops = convolution_flops(spec);
  int64_t kernel_bytes = e.in * e.out * 4;
  for (const DirectConvolution::Axis& axis : e.axes) kernel_bytes *= axis.taps;
  const DirectGroups groups = groups_of(spec);
  const int64_t parts = parts_of_direct(flops / static_cast<double>(groups.count));
  Cut cut;
  if (kernel_bytes > kPackedBytes) cut.columns = std::min(parts, ceil_div(e.out, gradient_strip()));
  cut.rows = parts / cut.columns;
  PreparedKernel kernel;
  kernel.cost = 1000 + flops / 150;
  kernel.scratch_bytes = convolution_scratch_bytes(e);
  const int64_t of_group = cut.columns * cut.rows, packed = packed_kernel_bytes(e) / 4;
  kernel.parts = groups.count * of_group;
  kernel.run = [e, cut, groups, of_group, packed](const KernelArgs& args) {
    const int64_t group = args.part / of_group, part = args.part % of_group;
    const int64_t column = part % cut.columns;
    const auto* const common = reinterpret_cast<const float*>(args.common);
    run_direct_convolution(e,
                           {part / cut.columns, cut.rows, column_of(cut, column, e.out),
                            column_of(cut, column + 1, e.out)},
                           reinterpret_cast<const float*>(args.operands[0]) + group * groups.x,
                           {reinterpret_cast<const float*>(args.operands[1]) + group * groups.w,
                            common == nullptr ? nullptr : common + group * packed},
                           reinterpret_cast<float*>(args.results[0]) + group * groups.y,
                           reinterpret_cast<float*>(args.scratch));
  };
  kernel.common.operand = 1;
  kernel.common.bytes = ceil_div(groups.count * packed * 4, int64_t{64}) * 64;
  kernel.common.parts = groups.count * packing_parts(e);
  kernel.common.prepare = [e, groups, packed](const KernelArgs& args) {
    const int64_t group = args.part / packing_parts(e);
    pack_kernel_part(e, args.part % packing_parts(e),
                     reinterpret_cast<const float*>(args.operands[1]) + group * groups.w,
                     reinterpret_cast<float*>(args.common) + group * packed);
  };
  return kernel;
}

PreparedKernel prepare_kernel_gradient(const ConvolutionSpec& spec) {
  const std::optional<KernelGradient> gradient = gradient_of(spec);
  if (!gradient) return {};
  const KernelGradient& e = *gradient;
  int64_t bytes = e.in * e.out * 4;
  for (const KernelGradient::Axis& axis : e.axes) bytes *= axis.taps;
  const double flops = convolution_flops(spec);
  const DirectGroups groups = groups_of(spec);
  Cut cut;  // groups are parts enough, and their results no arrays that can be summed
  if (groups.count == 1) cut = cut_of(e, flops, bytes);
  PreparedKernel kernel;
  kernel.cost = 1000 + flops / 150;
  kernel.scratch_bytes = gradient_scratch_bytes(e);
  const auto run = [e, cut, groups](const KernelArgs& args, std::byte* to) {
    const int64_t of_group = cut.columns * cut.rows, group = args.part / of_group;
    run_kernel_gradient(e, part_at(e, cut, args.part % of_group),
                        reinterpret_cast<const float*>(args.operands[0]) + group * groups.x,
                        reinterpret_cast<const float*>(args.operands[1]) + group * groups.w,
                        reinterpret_cast<float*>(to) + group * groups.y,
                        reinterpret_cast<float*>(args.scratch));
  };
  if (cut.rows == 1) {
    kernel.parts = groups.count * cut.columns;
    kernel.run = [run](const KernelArgs& args) { run(args, args.results[0]); };
    return kernel;
  }
  kernel.prepare_parts = cut.columns * cut.rows;
  kernel.prepare = [run, columns = cut.columns, step = summed_step(bytes)](const KernelArgs& args) {
    run(args, args.shared + args.part / columns * step);
  };
  sum_parts(kernel, cut.rows, bytes);
  return kernel;
}

}  // namespace gspmd
