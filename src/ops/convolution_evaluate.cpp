#include "gspmd/base/error.h"
#include "ops/convolution.h"
#include "ops/loops.h"
#include "ops/number_types.h"
#include "ops/window.h"

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

Dims sizes_along(const Dims& dims, const Dims& axes) {
  Dims out;
  for (const int64_t d : axes) out.push_back(dims[static_cast<size_t>(d)]);
  return out;
}

// The loops of a convolution, every operand's dims in the order batch (or output) and input
// feature, then the spatial ones.
struct Nest {
  Dims out_dims;       // batch, feature, spatial
  Dims lhs, rhs, out;  // strides, in the same order; rhs: input feature, output feature
  std::vector<std::vector<WindowRun>> runs;
  std::vector<bool> reversed;
  Dims kernel;                          // spatial sizes
  int64_t features_in;                  // of one group
  int64_t features_group, batch_group;  // output features of one feature group, of one batch group

  explicit Nest(const Node& node) {
    const ConvDims& conv = *node.attrs.conv;
    const Dims& in = node.operand(0)->dims();
    const Dims& weights = node.operand(1)->dims();
    const Dims out_axes = axes_of(conv.output_batch, conv.output_feature, conv.output_spatial);
    out_dims = sizes_along(node.dims(), out_axes);
    out = strides_along(node.dims(), out_axes);
    lhs = strides_along(in, axes_of(conv.input_batch, conv.input_feature, conv.input_spatial));
    rhs = strides_along(weights, axes_of(conv.kernel_input_feature, conv.kernel_output_feature,
                                         conv.kernel_spatial));
    features_in = weights[static_cast<size_t>(conv.kernel_input_feature)];
    features_group = out_dims[1] / conv.feature_group_count;
    batch_group = out_dims[1] / conv.batch_group_count;
    for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
      kernel.push_back(weights[static_cast<size_t>(conv.kernel_spatial[i])]);
      reversed.push_back(node.attrs.window[i].reversal);
      runs.push_back(window_runs(node.attrs.window[i],
                                 in[static_cast<size_t>(conv.input_spatial[i])], out_dims[i + 2]));
    }
  }
};

// Where the sum of one output element begins in lhs and rhs, and its loops.
struct Window {
  Dims counts;
  std::array<Dims, 2> steps;
  std::array<int64_t, 2> base{0, 0};

  void move_to(const Nest& nest, const Dims& index) {
    const size_t spatial = nest.runs.size();
    counts.assign(spatial + 1, 0);
    for (Dims& step : steps) step.assign(spatial + 1, 0);
    const int64_t batch = index[0], feature = index[1];
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
};

// Floats are multiplied and summed in double and rounded once; integers wrap in 64 bits.
template <class A>
void convolve(const Nest& nest, const std::vector<A>& lhs, const std::vector<A>& rhs,
              std::vector<A>& out) {
  Dims index(nest.out_dims.size(), 0);
  Window window;
  for (size_t n = 0; n < out.size(); ++n) {
    window.move_to(nest, index);
    A sum = A(0);
    for_each_offset<2>(
        window.counts, window.steps, window.base, [&](const std::array<int64_t, 2>& at) {
          add_product(sum, lhs[static_cast<size_t>(at[0])], rhs[static_cast<size_t>(at[1])]);
        });
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * nest.out[d];
    out[static_cast<size_t>(offset)] = sum;
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < nest.out_dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

Value evaluate_convolution(const EvalContext& context) {
  const Array& lhs = context.operands[0].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  const Nest nest(context.node);
  visit_number(lhs.dtype(), [&](auto operand) {
    using A = ProductAccumulator<typename decltype(operand)::type>;
    const std::vector<A> a = to_accumulators<A>(lhs);
    const std::vector<A> b = to_accumulators<A>(context.operands[1].array);
    std::vector<A> sums(static_cast<size_t>(result.size()), A(0));
    convolve(nest, a, b, sums);
    visit_number(result.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const std::span<T> out = result.data<T>();
      for (size_t i = 0; i < out.size(); ++i) out[i] = from_accumulator<T>(sums[i]);
    });
  });
  return {result, {}, false};
}

}  // namespace gspmd
