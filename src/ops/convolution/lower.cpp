#include "gspmd/kernels/convolution.h"
#include "ops/convolution/convolution.h"
#include "ops/convolution/nest.h"

namespace gspmd {
namespace {

int64_t at(const Dims& list, int64_t i) { return list[static_cast<size_t>(i)]; }

ConvolutionSpec spec_of(const Node& node) {
  const ConvDims& conv = *node.attrs.conv;
  const Dims& input = node.operand(0)->dims();
  const Dims& kernel = node.operand(1)->dims();
  const Dims in = row_major_strides(input), weights = row_major_strides(kernel);
  const Dims out = row_major_strides(node.dims());
  ConvolutionSpec spec;
  spec.operand = node.operand(0)->shape.dtype;
  spec.result = node.shape.dtype;
  spec.batch = node.dim(conv.output_batch);
  spec.in_features = at(kernel, conv.kernel_input_feature);
  spec.out_features = node.dim(conv.output_feature);
  spec.feature_groups = conv.feature_group_count;
  spec.batch_groups = conv.batch_group_count;
  spec.input_batch = at(in, conv.input_batch);
  spec.input_feature = at(in, conv.input_feature);
  spec.kernel_input = at(weights, conv.kernel_input_feature);
  spec.kernel_output = at(weights, conv.kernel_output_feature);
  spec.output_batch = at(out, conv.output_batch);
  spec.output_feature = at(out, conv.output_feature);
  for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
    const WindowDim& w = node.attrs.window[i];
    const int64_t from = conv.input_spatial[i], by = conv.kernel_spatial[i],
                  to = conv.output_spatial[i];
    spec.axes.push_back({at(input, from), at(kernel, by), node.dim(to), w.stride, w.pad_low,
                         w.base_dilation, w.window_dilation, w.reversal, at(in, from),
                         at(weights, by), at(out, to)});
  }
  return spec;
}

PreparedKernel kernel_of(const Node& node) {
  if (node.operand(0)->shape.dtype != node.operand(1)->shape.dtype) return {};
  return prepare_convolution(spec_of(node));
}

// Plain loops, cut into parts: element types and windows that the library has no primitive for.
PreparedKernel loops_of(const Node& node) {
  PreparedKernel kernel;
  const DType type = node.operand(0)->shape.dtype;
  if (node.operand(1)->shape.dtype != type || !is_computable(type) || is_complex(type) ||
      !is_computable(node.shape.dtype) || is_complex(node.shape.dtype))
    return kernel;
  if (node.shape.elements_count() == 0) return kernel;
  const double flops = static_cast<double>(op_info(Opcode::convolution).flops(node));
  kernel.cost = 1000 + 2 * flops;
  ConvolutionNest nest(node);
  kernel.parts = std::min<int64_t>(nest.rows(), flops > 1e6 ? 8 : 1);
  visit_dtype(type, [&](auto operand) {
    using T = typename decltype(operand)::type;
    using A = ProductAccumulator<T>;
    kernel.run = [nest, parts = kernel.parts,
                  store = store_sums_as<A>(node.shape.dtype)](const KernelArgs& args) {
      const int64_t rows = nest.rows();
      const int64_t begin = args.part * rows / parts, end = (args.part + 1) * rows / parts;
      convolve<A>(nest, reinterpret_cast<const T*>(args.operands[0]),
                  reinterpret_cast<const T*>(args.operands[1]), args.results[0], store, begin, end);
    };
  });
  return kernel;
}

}  // namespace

PreparedKernel lower_convolution(const Node& node) {
  // The reference kernel converts floats first (product_operand).
  if (is_integer(node.shape.dtype) && is_floating(node.operand(0)->shape.dtype)) return {};
  if (PreparedKernel kernel = kernel_of(node); kernel.run) return kernel;
  return loops_of(node);
}

bool has_convolution_kernel(const Node& node) { return kernel_of(node).run != nullptr; }

}  // namespace gspmd
