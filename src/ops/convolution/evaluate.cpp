#include <numeric>

#include "ops/common/widen.h"
#include "ops/convolution/convolution.h"
#include "ops/convolution/nest.h"

namespace gspmd {
namespace {

Dims axes_of(int64_t first, int64_t second, const Dims& spatial) {
  Dims axes{first, second};
  axes.insert(axes.end(), spatial.begin(), spatial.end());
  return axes;
}

// Strides of an array along a list of its dims.
Dims strides_along(const Dims& dims, const Dims& axes) {
  const Dims strides = row_major_strides(dims);
  Dims out;
  for (const int64_t d : axes) out.push_back(strides[static_cast<size_t>(d)]);
  return out;
}

}  // namespace

ConvolutionNest::ConvolutionNest(const Node& node) {
  const ConvDims& conv = *node.attrs.conv;
  const Dims& in = node.operand(0)->dims();
  const Dims& weights = node.operand(1)->dims();
  const Dims out_axes = axes_of(conv.output_batch, conv.output_feature, conv.output_spatial);
  for (const int64_t d : out_axes) out_dims.push_back(node.dim(d));
  out = strides_along(node.dims(), out_axes);
  lhs = strides_along(in, axes_of(conv.input_batch, conv.input_feature, conv.input_spatial));
  rhs = strides_along(
      weights, axes_of(conv.kernel_input_feature, conv.kernel_output_feature, conv.kernel_spatial));
  features_in = weights[static_cast<size_t>(conv.kernel_input_feature)];
  features_group = out_dims[1] / conv.feature_group_count;
  batch_group = out_dims[1] / conv.batch_group_count;
  block = std::gcd(features_group, batch_group);
  for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
    kernel.push_back(weights[static_cast<size_t>(conv.kernel_spatial[i])]);
    reversed.push_back(node.attrs.window[i].reversal);
    runs.push_back(window_runs(node.attrs.window[i], in[static_cast<size_t>(conv.input_spatial[i])],
                               out_dims[i + 2]));
  }
}

Dims ConvolutionNest::row_dims() const {
  Dims dims = out_dims;
  if (block > 0) dims[1] /= block;
  return dims;
}

int64_t ConvolutionNest::rows() const { return Shape(DType::pred, row_dims()).elements_count(); }

void ConvolutionWindow::move_to(const ConvolutionNest& nest, const Dims& index) {
  const size_t spatial = nest.runs.size();
  counts.assign(spatial + 1, 0);
  for (Dims& step : steps) step.assign(spatial + 1, 0);
  const int64_t batch = index[0], feature = index[1] * nest.block;
  const int64_t lhs_batch = batch + feature / nest.batch_group * nest.out_dims[0];
  const int64_t lhs_feature = feature / nest.features_group * nest.features_in;
  base = {lhs_batch * nest.lhs[0] + lhs_feature * nest.lhs[1], feature * nest.rhs[1]};
  for (size_t i = 0; i < spatial; ++i) {
    const WindowRun& run = nest.runs[i][static_cast<size_t>(index[i + 2])];
    counts[i] = run.count;
    const int64_t first =
        nest.reversed[i] ? nest.kernel[i] - 1 - run.window_first : run.window_first;
    const int64_t step = nest.reversed[i] ? -run.window_step : run.window_step;
    base[0] += run.input_first * nest.lhs[i + 2];
    base[1] += first * nest.rhs[i + 2];
    steps[0][i] = run.input_step * nest.lhs[i + 2];
    steps[1][i] = step * nest.rhs[i + 2];
  }
  counts[spatial] = nest.features_in;
  steps[0][spatial] = nest.lhs[1];
  steps[1][spatial] = nest.rhs[0];
}

namespace {

// The kernel as accumulators, output features innermost, so that a row reads them one after
// another.
template <class A>
std::vector<A> pack_kernel(ConvolutionNest& nest, const Array& rhs) {
  Dims dims = nest.kernel;
  dims.push_back(nest.features_in);
  dims.push_back(nest.out_dims[1]);
  Dims from(nest.rhs.begin() + 2, nest.rhs.end());
  from.push_back(nest.rhs[0]);
  from.push_back(nest.rhs[1]);
  std::vector<A> packed;
  packed.reserve(static_cast<size_t>(rhs.size()));
  visit_number(rhs.dtype(), [&](auto tag) {
    const auto in = rhs.data<typename decltype(tag)::type>();
    for_each_offset<1>(dims, {from}, {0}, [&](const std::array<int64_t, 1>& at) {
      packed.push_back(to_accumulator<A>(in[static_cast<size_t>(at[0])]));
    });
  });
  const Dims strides = row_major_strides(dims);
  nest.rhs = {strides[strides.size() - 2], strides.back()};
  nest.rhs.insert(nest.rhs.end(), strides.begin(), strides.end() - 2);
  return packed;
}

}  // namespace

Value evaluate_convolution(const EvalContext& context) {
  const Array lhs = product_operand(context.operands[0].array, context.node.shape.dtype);
  const Array rhs = product_operand(context.operands[1].array, context.node.shape.dtype);
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  ConvolutionNest nest(context.node);
  visit_product_accumulator(context.node, [&](auto accumulator) {
    using A = typename decltype(accumulator)::type;
    const std::vector<A> a = to_accumulators<A>(lhs);
    const std::vector<A> b = pack_kernel<A>(nest, rhs);
    convolve<A>(nest, a.data(), b.data(), result.bytes().data(), store_sums_as<A>(result.dtype()),
                0, nest.rows());
  });
  return {result, {}, false};
}

}  // namespace gspmd
