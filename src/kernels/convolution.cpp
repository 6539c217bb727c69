#include "gspmd/kernels/convolution.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "gspmd/base/shape.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/convolution_direct.h"
#include "kernels/convolution_library.h"
#include "kernels/convolution_planes.h"
#include "kernels/depthwise_rows.h"
#include "kernels/gemm_product.h"
#include "kernels/group_planes.h"
#include "kernels/summed_parts.h"
#include "kernels/window_planes.h"

namespace gspmd {
namespace {

constexpr double kConvolutionPartFlops = 8e6;
constexpr int64_t kMostParts = 4;  // every part packs its kernel
constexpr size_t kMostAxes = 3;
// Gradients of kernels up to this size are summed from parts of the batch: with few output features
// in each part the library's blocks are not full.
constexpr int64_t kSummedBytes = int64_t{4} << 20;

// Offsets into input, kernel and result, in elements unless said otherwise.
struct Offsets {
  int64_t input = 0, kernel = 0, output = 0;
};

// A loop over parts of a convolution: `count` parts of `size` (the last one may be shorter), each a
// step further in the three arrays.
struct Split {
  // sums: of products over the input features, whose parts are results to be added
  enum class Over : uint8_t { nothing, batch, features, groups, sums };
  Over over = Over::nothing;
  int64_t extent = 1, size = 1, count = 1;
  Offsets step;  // per element of the loop
};

int64_t product_of(const std::vector<ConvolutionAxis>& axes, int64_t ConvolutionAxis::*size) {
  int64_t product = 1;
  for (const ConvolutionAxis& axis : axes) product = saturating_multiply(product, axis.*size);
  return product;
}

ConvolutionForm form_of(const ConvolutionSpec& spec) {
  for (const ConvolutionAxis& axis : spec.axes)
    if (axis.base_dilation > 1) return ConvolutionForm::input_gradient;
  // A window that covers a small input whole is still a plain convolution: fully connected layers.
  constexpr int64_t kLargeWindow = 64;
  const int64_t window = product_of(spec.axes, &ConvolutionAxis::kernel);
  const int64_t positions = product_of(spec.axes, &ConvolutionAxis::output);
  const bool large = window > positions && (positions > 1 || window > kLargeWindow);
  return spec.batch_groups > 1 || (large && spec.feature_groups == 1)
             ? ConvolutionForm::kernel_gradient
             : ConvolutionForm::forward;
}

int64_t result_bytes(const ConvolutionSpec& spec) {
  const int64_t positions = product_of(spec.axes, &ConvolutionAxis::output);
  return saturating_multiply(saturating_multiply(spec.batch, spec.out_features),
                             saturating_multiply(positions, dtype_size(spec.result)));
}

// Into `wanted` parts or fewer, of whole units but for the last.
Split cut(Split split, int64_t wanted, int64_t unit) {
  split.size = ceil_div(ceil_div(split.extent, wanted), unit) * unit;
  split.count = ceil_div(split.extent, split.size);
  return split;
}

Split split_of(const ConvolutionSpec& spec, ConvolutionForm form) {
  Split split;
  const int64_t wanted = std::clamp<int64_t>(
      static_cast<int64_t>(convolution_flops(spec) / kConvolutionPartFlops), 1, kMostParts);
  if (wanted == 1) return split;
  const int64_t groups = spec.feature_groups * spec.batch_groups;
  if (form == ConvolutionForm::kernel_gradient && groups == 1 && spec.result == DType::f32 &&
      spec.in_features >= wanted && result_bytes(spec) <= kSummedBytes) {
    split.over = Split::Over::sums;
    split.extent = spec.in_features;
    split.step = {spec.input_feature, spec.kernel_input, 0};
    return cut(split, wanted, 1);
  }
  const double input = static_cast<double>(spec.batch) *
                       static_cast<double>(product_of(spec.axes, &ConvolutionAxis::input));
  const double kernel = static_cast<double>(spec.out_features) *
                        static_cast<double>(product_of(spec.axes, &ConvolutionAxis::kernel));
  const bool features =
      form == ConvolutionForm::kernel_gradient || kernel > input || spec.batch == 1;
  int64_t unit = 1;
  if (groups > 1 && (spec.batch == 1 || spec.batch_groups > 1)) {
    const int64_t out = spec.out_features / groups;
    const bool batches = spec.batch_groups > 1;
    split.over = Split::Over::groups;
    split.extent = groups;
    split.step = {batches ? spec.batch * spec.input_batch : spec.in_features * spec.input_feature,
                  out * spec.kernel_output, out * spec.output_feature};
  } else if (groups == 1 && features && spec.out_features >= 32) {
    split.over = Split::Over::features;
    split.extent = spec.out_features;
    split.step = {0, spec.kernel_output, spec.output_feature};
    unit = 16;
  } else {
    split.over = Split::Over::batch;
    split.extent = spec.batch;
    split.step = {spec.input_batch, 0, spec.output_batch};
  }
  return cut(split, wanted, unit);
}

ConvolutionSpec part_of(ConvolutionSpec spec, const Split& split, int64_t size) {
  if (split.over == Split::Over::batch) spec.batch = size;
  if (split.over == Split::Over::features) spec.out_features = size;
  if (split.over == Split::Over::sums) spec.in_features = size;
  if (split.over == Split::Over::groups) {
    spec.out_features = spec.out_features / split.extent * size;
    (spec.batch_groups > 1 ? spec.batch_groups : spec.feature_groups) = size;
  }
  return spec;
}

// The padding at the end with which the library counts `output` positions; what of the input no
// window reaches may stay out of it, where that is less than a stride.
int64_t padding_behind(int64_t input, int64_t reach, int64_t stride, int64_t output,
                       int64_t pad_low) {
  const int64_t exact = (output - 1) * stride + reach - input - pad_low;
  return exact >= 0 ? exact : std::min<int64_t>(0, exact + stride - 1);
}

// One part in the library's terms, and what of the arrays it leaves out.
struct Mapped {
  LibraryConvolution library;
  Offsets first;
  std::vector<bool> flipped;  // spatial dims that the library reads the other way round
};

struct AxisFields {
  int64_t stride, dilation, pad_low, pad_high, input;
  int64_t skipped = 0;  // of the input, in front
};

// Axis of a convolution of `input` with windows of `kernel`; input that negative padding cuts off
// is left out. nullopt where nothing would be left.
std::optional<AxisFields> plain_axis(int64_t input, int64_t kernel, int64_t output, int64_t stride,
                                     int64_t dilation, int64_t pad_low) {
  AxisFields axis{stride, dilation - 1, pad_low, 0, input};
  if (pad_low < 0) {
    axis.skipped = -pad_low;
    axis.input -= axis.skipped;
    axis.pad_low = 0;
  }
  const int64_t reach = (kernel - 1) * dilation + 1;
  axis.pad_high = padding_behind(axis.input, reach, stride, output, axis.pad_low);
  if (axis.pad_high < 0) {
    axis.input += axis.pad_high;
    axis.pad_high = 0;
  }
  if (axis.input <= 0) return std::nullopt;
  return axis;
}

// Whether each of `weights` meets the input at some of the `output` positions. The library leaves
// the gradient of one that meets padding only as it finds it.
bool each_meets_input(const AxisFields& axis, int64_t weights, int64_t output) {
  for (int64_t w = 0; w < weights; ++w) {
    bool meets = false;
    for (int64_t p = 0; p < output && !meets; ++p) {
      const int64_t at = p * axis.stride + w * (axis.dilation + 1) - axis.pad_low;
      meets = at >= 0 && at < axis.input;
    }
    if (!meets) return false;
  }
  return true;
}

void add_dim(ConvolutionTensor& tensor, int64_t size, int64_t step) {
  tensor.dims.push_back(size);
  tensor.steps.push_back(step);
}

void add_axis(LibraryConvolution& library, const AxisFields& axis) {
  library.strides.push_back(axis.stride);
  library.dilations.push_back(axis.dilation);
  library.pad_low.push_back(axis.pad_low);
  library.pad_high.push_back(axis.pad_high);
}

bool map_axis(const ConvolutionAxis& a, Mapped& mapped) {
  LibraryConvolution& to = mapped.library;
  std::optional<AxisFields> axis;
  bool flipped = a.reversal && a.kernel > 1;
  switch (to.form) {
    case ConvolutionForm::forward:
      axis = plain_axis(a.input, a.kernel, a.output, a.stride, a.window_dilation, a.pad_low);
      if (!axis) return false;
      add_dim(to.src, axis->input, a.input_step);
      add_dim(to.weights, a.kernel, a.kernel_step);
      add_dim(to.dst, a.output, a.output_step);
      break;
    case ConvolutionForm::kernel_gradient:
      // The window runs over the result, the kernel operand is the gradient of the output.
      axis = plain_axis(a.input, a.output, a.kernel, a.window_dilation, a.stride, a.pad_low);
      if (!axis || !each_meets_input(*axis, a.output, a.kernel)) return false;
      add_dim(to.src, axis->input, a.input_step);
      add_dim(to.weights, a.output, a.output_step);
      add_dim(to.dst, a.kernel, a.kernel_step);
      break;
    case ConvolutionForm::input_gradient: {
      if (a.stride != 1) return false;
      // result = input * dilation - window + pad_low reads the kernel backwards.
      const int64_t reach = (a.kernel - 1) * a.window_dilation;
      axis = AxisFields{a.base_dilation, a.window_dilation - 1, reach - a.pad_low, 0, a.output};
      axis->pad_high = padding_behind(a.output, reach + 1, a.base_dilation, a.input, axis->pad_low);
      if (axis->pad_low < 0 || axis->pad_high < 0) return false;
      flipped = !a.reversal && a.kernel > 1;
      add_dim(to.src, a.output, a.output_step);
      add_dim(to.weights, a.kernel, a.kernel_step);
      add_dim(to.dst, a.input, a.input_step);
      break;
    }
  }
  mapped.first.input += axis->skipped * a.input_step;
  mapped.flipped.push_back(flipped);
  add_axis(to, *axis);
  return true;
}

std::optional<Mapped> map_part(const ConvolutionSpec& spec, ConvolutionForm form) {
  Mapped mapped;
  LibraryConvolution& to = mapped.library;
  to.form = form;
  to.operand = spec.operand;
  to.result = spec.result;
  const int64_t groups = spec.feature_groups * spec.batch_groups;
  const int64_t out = spec.out_features / groups;
  if (form == ConvolutionForm::kernel_gradient) {
    if (spec.feature_groups > 1) return std::nullopt;
    add_dim(to.src, spec.in_features, spec.input_feature);
    add_dim(to.src, spec.batch * groups, spec.input_batch);
    if (groups > 1) add_dim(to.weights, groups, out * spec.output_feature);
    add_dim(to.weights, out, spec.output_feature);
    add_dim(to.weights, spec.batch, spec.output_batch);
    add_dim(to.dst, spec.in_features, spec.kernel_input);
    add_dim(to.dst, spec.out_features, spec.kernel_output);
  } else {
    if (spec.batch_groups > 1) return std::nullopt;
    const bool forward = form == ConvolutionForm::forward;
    add_dim(forward ? to.src : to.dst, spec.batch, spec.input_batch);
    add_dim(forward ? to.src : to.dst, spec.in_features * groups, spec.input_feature);
    add_dim(forward ? to.dst : to.src, spec.batch, spec.output_batch);
    add_dim(forward ? to.dst : to.src, spec.out_features, spec.output_feature);
    if (groups > 1) add_dim(to.weights, groups, out * spec.kernel_output);
    add_dim(to.weights, forward ? out : spec.in_features,
            forward ? spec.kernel_output : spec.kernel_input);
    add_dim(to.weights, forward ? spec.in_features : out,
            forward ? spec.kernel_input : spec.kernel_output);
  }
  std::vector<ConvolutionAxis> axes = spec.axes;
  if (axes.empty()) axes.emplace_back();
  for (const ConvolutionAxis& axis : axes)
    if (!map_axis(axis, mapped)) return std::nullopt;
  return mapped;
}

// One part, ready to run: the kernel operand is turned round first where the library reads it so.
struct PreparedPart {
  std::unique_ptr<ConvolutionPrimitive> primitive;
  ConvolutionForm form;
  Offsets first;
  bool flips = false;
  StridedCopy flip;
  int64_t flip_offset = 0, flip_bytes = 0;  // first element of the kernel that is copied

  int64_t scratch_bytes() const { return flip_bytes + primitive->scratch_bytes(); }
  // The kernel operand as the library is given it.
  const std::byte* turned(const std::byte* kernel, std::byte* scratch, int64_t operand_size) const {
    if (!flips) return kernel;
    run_copy(flip, kernel + flip_offset * operand_size, scratch);
    return scratch;
  }
  // Of forms that read the kernel operand.
  void lay_out(const std::byte* kernel, std::byte* to, std::byte* scratch,
               int64_t operand_size) const {
    auto* const given = const_cast<std::byte*>(turned(kernel, scratch, operand_size));
    primitive->lay_out_weights(given, to, scratch + flip_bytes);
  }
  void run(const std::byte* input, const std::byte* kernel, std::byte* output, std::byte* scratch,
           int64_t operand_size, const std::byte* laid_out) const {
    input += first.input * operand_size;
    if (laid_out == nullptr) kernel = turned(kernel, scratch, operand_size);
    auto* const a = const_cast<std::byte*>(input);
    auto* const b = const_cast<std::byte*>(kernel);
    scratch += flip_bytes;
    switch (form) {
      case ConvolutionForm::forward:
        return primitive->run(a, b, output, scratch, laid_out);
      case ConvolutionForm::input_gradient:
        return primitive->run(output, b, a, scratch, laid_out);
      case ConvolutionForm::kernel_gradient:
        return primitive->run(a, output, b, scratch, nullptr);
    }
  }
};

// Replaces the kernel operand by a dense copy whose flipped dims run the other way.
void prepare_flip(PreparedPart& part, ConvolutionTensor& tensor, const std::vector<bool>& flipped,
                  int64_t element_size) {
  part.flips = true;
  StridedCopy copy;
  copy.element_size = element_size;
  copy.dims = tensor.dims;
  copy.source = tensor.steps;
  copy.target = row_major_strides(tensor.dims);
  const size_t first = tensor.dims.size() - flipped.size();
  for (size_t i = 0; i < flipped.size(); ++i) {
    if (!flipped[i]) continue;
    part.flip_offset += (copy.dims[first + i] - 1) * copy.source[first + i];
    copy.source[first + i] = -copy.source[first + i];
  }
  tensor.steps = copy.target;
  int64_t elements = 1;
  for (const int64_t d : tensor.dims) elements *= d;
  part.flip_bytes = ceil_div(elements * element_size, 64) * 64;
  part.flip = simplified(std::move(copy));
}

std::optional<PreparedPart> prepare_part(const ConvolutionSpec& spec, ConvolutionForm form) {
  std::optional<Mapped> mapped = map_part(spec, form);
  if (!mapped) return std::nullopt;
  PreparedPart part;
  part.form = form;
  part.first = mapped->first;
  LibraryConvolution& library = mapped->library;
  if (std::find(mapped->flipped.begin(), mapped->flipped.end(), true) != mapped->flipped.end())
    prepare_flip(part, form == ConvolutionForm::kernel_gradient ? library.dst : library.weights,
                 mapped->flipped, dtype_size(spec.operand));
  part.primitive = library_convolution(library);
  if (!part.primitive) return std::nullopt;
  return part;
}

bool is_library_type(const ConvolutionSpec& spec) {
  if (spec.operand == DType::f32) return spec.result == DType::f32;
  return spec.operand == DType::bf16 && (spec.result == DType::bf16 || spec.result == DType::f32);
}

bool sizes_fit(const ConvolutionSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;
  if (spec.batch < 1 || spec.in_features < 1 || spec.out_features < 1) return false;
  if (spec.batch > kMost || spec.in_features > kMost || spec.out_features > kMost) return false;
  for (const ConvolutionAxis& axis : spec.axes)
    for (const int64_t size :
         {axis.input, axis.kernel, axis.output, axis.stride, axis.base_dilation,
          axis.window_dilation, std::abs(axis.pad_low) + 1})
      if (size < 1 || size > kMost) return false;
  return spec.axes.size() <= kMostAxes;
}

struct PreparedConvolution {
  Split split;
  int64_t operand_size = 4, result_size = 4;
  std::optional<PreparedPart> parts[2];  // [1]: the last, shorter one

  void run(const KernelArgs& args, std::byte* result) const {
    const int64_t at = args.part * split.size;
    const bool shorter = split.extent - at < split.size;
    parts[shorter ? 1 : 0]->run(args.operands[0] + at * split.step.input * operand_size,
                                args.operands[1] + at * split.step.kernel * operand_size,
                                result + at * split.step.output * result_size, args.scratch,
                                operand_size, args.common);
  }
  // Bytes of the kernel operand as all parts read it; 0: they read it as it is, or differ.
  int64_t laid_out_bytes() const {
    const bool same = split.step.kernel == 0 &&
                      (!parts[1] || parts[1]->primitive->reads_as(*parts[0]->primitive));
    return same ? parts[0]->primitive->laid_out_bytes() : 0;
  }
};

CommonStage lay_out_once(const std::shared_ptr<const PreparedConvolution>& plan) {
  CommonStage stage;
  stage.bytes = plan->laid_out_bytes();
  if (stage.bytes == 0) return stage;
  stage.operand = 1;
  stage.parts = 1;
  stage.prepare = [plan](const KernelArgs& args) {
    plan->parts[0]->lay_out(args.operands[1], args.common, args.scratch, plan->operand_size);
  };
  return stage;
}

}  // namespace

double convolution_flops(const ConvolutionSpec& spec) {
  double flops = 2.0 * static_cast<double>(spec.batch) * static_cast<double>(spec.out_features) *
                 static_cast<double>(spec.in_features);
  for (const ConvolutionAxis& axis : spec.axes) {
    const int64_t met = std::min(axis.kernel, axis.input);
    flops *= static_cast<double>(axis.output) * static_cast<double>(met);
  }
  return flops;
}

namespace {

// The library has no kernel for groups along a single axis: behind another one, of one element.
ConvolutionSpec in_two_axes(ConvolutionSpec spec) {
  const ConvolutionAxis& axis = spec.axes[0];
  ConvolutionAxis one;
  one.input_step = axis.input * axis.input_step;
  one.kernel_step = axis.kernel * axis.kernel_step;
  one.output_step = axis.output * axis.output_step;
  spec.axes.insert(spec.axes.begin(), one);
  return spec;
}

// Groups of so many features, channels first, one by one: a group's kernel fills the caches.
constexpr int64_t kLeastOfPlaneGroup = 128;

PreparedKernel prepare_planes_of_groups(const ConvolutionSpec& spec) {
  const int64_t groups = spec.feature_groups, out = spec.out_features / groups;
  if (groups == 1 || spec.in_features < kLeastOfPlaneGroup || out < kLeastOfPlaneGroup) return {};
  ConvolutionSpec one = spec;
  one.feature_groups = 1;
  one.out_features = out;
  PreparedKernel kernel = prepare_planes(one);
  if (!kernel.run || kernel.prepare) return {};  // a first stage is of one group
  // In bytes.
  const Offsets step{spec.in_features * spec.input_feature * 4, out * spec.kernel_output * 4,
                     out * spec.output_feature * 4};
  kernel.run = [run = std::move(kernel.run), step, parts = kernel.parts](const KernelArgs& args) {
    const int64_t group = args.part / parts;
    const std::byte* const operands[] = {args.operands[0] + group * step.input,
                                         args.operands[1] + group * step.kernel};
    std::byte* const results[] = {args.results[0] + group * step.output};
    KernelArgs of_group = args;
    of_group.operands = operands;
    of_group.results = results;
    of_group.part = args.part % parts;
    run(of_group);
  };
  kernel.parts *= groups;
  kernel.cost *= static_cast<double>(groups);
  return kernel;
}

// Depthwise, of f32, by so many taps at every position that the library, which has a loop for such,
// is quicker than what reads each element once for each tap.
bool computes_by_taps(const ConvolutionSpec& spec) {
  constexpr int64_t kFewTaps = 12;
  int64_t taps = 1;
  for (const ConvolutionAxis& axis : spec.axes) {
    if (axis.stride > 1) return false;
    taps = saturating_multiply(taps, axis.kernel);
  }
  return spec.operand == DType::f32 && taps > kFewTaps;
}

PreparedKernel prepare_of_groups(const ConvolutionSpec& spec) {
  PreparedKernel gradient = prepare_group_gradient(spec);
  return gradient.run ? gradient : prepare_group_convolution(spec);
}

}  // namespace

PreparedKernel prepare_convolution(const ConvolutionSpec& spec) {
  if (spec.axes.size() == 1 && spec.feature_groups * spec.batch_groups > 1)
    return prepare_convolution(in_two_axes(spec));
  const bool fits = is_library_type(spec) && sizes_fit(spec);
  if (fits) {
    if (PreparedKernel direct = prepare_kernel_gradient(spec); direct.run) return direct;
    if (PreparedKernel direct = prepare_direct_convolution(spec); direct.run) return direct;
  }
  if (packed_lanes() == kPlaneLanes)
    if (PreparedKernel planes = prepare_planes_of_groups(spec); planes.run) return planes;
  if (PreparedKernel group = prepare_of_groups(spec); group.run) return group;
  if (packed_lanes() == kPlaneLanes && sizes_fit(spec) && !computes_by_taps(spec))
    if (PreparedKernel rows = prepare_depthwise_rows(spec); rows.run) return rows;
  if (!fits) return {};
  if (packed_lanes() == kPlaneLanes) {
    if (PreparedKernel planes = prepare_planes_gradient(spec); planes.run) return planes;
    if (PreparedKernel planes = prepare_planes(spec); planes.run) return planes;
    if (PreparedKernel planes = prepare_depthwise_planes(spec); planes.run) return planes;
  }
  const ConvolutionForm form = form_of(spec);
  auto plan = std::make_shared<PreparedConvolution>();
  plan->operand_size = dtype_size(spec.operand);
  plan->result_size = dtype_size(spec.result);
  plan->split = split_of(spec, form);
  const Split& split = plan->split;
  PreparedKernel kernel;
  for (int i = 0; i < 2; ++i) {
    const int64_t size = i == 0 ? split.size : split.extent - (split.count - 1) * split.size;
    if (i == 1 && size == split.size) break;
    plan->parts[i] = prepare_part(part_of(spec, split, size), form);
    if (!plan->parts[i]) return {};
    kernel.scratch_bytes = std::max(kernel.scratch_bytes, plan->parts[i]->scratch_bytes());
  }
  kernel.cost = 1000 + convolution_flops(spec) / 150;
  if (split.over == Split::Over::sums) {
    const int64_t bytes = result_bytes(spec);
    kernel.prepare_parts = split.count;
    kernel.prepare = [plan = std::shared_ptr<const PreparedConvolution>(std::move(plan)),
                      step = summed_step(bytes)](const KernelArgs& args) {
      plan->run(args, args.shared + args.part * step);
    };
    sum_parts(kernel, kernel.prepare_parts, bytes);
    return kernel;
  }
  kernel.parts = split.count;
  kernel.common = lay_out_once(plan);
  kernel.run = [plan = std::shared_ptr<const PreparedConvolution>(std::move(plan))](
                   const KernelArgs& args) { plan->run(args, args.results[0]); };
  return kernel;
}

}  // namespace gspmd
