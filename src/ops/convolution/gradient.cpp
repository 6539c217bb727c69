#include "ops/convolution/gradient.h"

#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

int64_t spread_size(int64_t size, int64_t by) { return size == 0 ? 0 : (size - 1) * by + 1; }

Node* convolve(Node* input, Node* kernel, std::vector<WindowDim> window, ConvDims dims,
               DType dtype) {
  Attributes attrs;
  attrs.window = std::move(window);
  attrs.conv = std::move(dims);
  return emit(input->parent(), Opcode::convolution, {input, kernel}, std::move(attrs),
              Shape(dtype, Dims(input->dims().size(), 0)));
}

// Takes `groups` parts of dim `from` apart and makes them the outer part of dim `to`.
Node* move_groups(Node* x, int64_t from, int64_t to, int64_t groups) {
  if (groups == 1) return x;
  Dims apart = x->dims();
  apart[static_cast<size_t>(from)] /= groups;
  apart.insert(apart.begin() + from, groups);
  // Dim `to` of x is behind the new dim unless it lies in front of it.
  Dims order;
  for (int64_t d = 0; d < x->rank(); ++d) {
    if (d == to) order.push_back(from);
    order.push_back(d < from ? d : d + 1);
  }
  Dims together = x->dims();
  together[static_cast<size_t>(from)] /= groups;
  together[static_cast<size_t>(to)] *= groups;
  return hlo::reshape(hlo::transpose(hlo::reshape(x, apart), order), together);
}

// Each element of the input gets the cotangents of the results that read it, times the kernel:
// a convolution whose window runs the other way.
Node* to_input(Node& y, Node* c) {
  const ConvDims& conv = *y.attrs.conv;
  Node* const x = y.operand(0);
  std::vector<WindowDim> window;
  for (size_t i = 0; i < y.attrs.window.size(); ++i) {
    const WindowDim& from = y.attrs.window[i];
    WindowDim w = from;
    w.stride = from.base_dilation;
    w.base_dilation = from.stride;
    w.pad_low = (from.size - 1) * from.window_dilation - from.pad_low;
    w.pad_high = spread_size(x->dim(conv.input_spatial[i]), from.base_dilation) -
                 spread_size(y.dim(conv.output_spatial[i]), from.stride) + from.pad_low;
    w.reversal = !from.reversal;
    window.push_back(w);
  }
  const int64_t groups = conv.feature_group_count * conv.batch_group_count;
  Node* const kernel =
      move_groups(y.operand(1), conv.kernel_output_feature, conv.kernel_input_feature, groups);
  ConvDims dims = conv;
  std::swap(dims.input_batch, dims.output_batch);
  std::swap(dims.input_feature, dims.output_feature);
  std::swap(dims.input_spatial, dims.output_spatial);
  std::swap(dims.kernel_input_feature, dims.kernel_output_feature);
  dims.feature_group_count = groups;
  dims.batch_group_count = 1;
  Node* const result = convolve(c, kernel, std::move(window), std::move(dims), c->shape.dtype);
  return hlo::convert(
      move_groups(result, conv.input_feature, conv.input_batch, conv.batch_group_count),
      x->shape.dtype);
}

Node* reversed_along(Node* x, Dims dims) {
  if (dims.empty()) return x;
  Attributes attrs;
  attrs.dimensions = std::move(dims);
  return emit(x->parent(), Opcode::reverse, {x}, std::move(attrs));
}

// Whether the input is dilated by more than the result is strided: the input as a kernel with holes
// is then a smaller product than the input with zeros between its elements, and one that images cut
// into parts need halos for.
bool input_is_spread(const Node& y) {
  int64_t input = 1, result = 1;
  for (const WindowDim& w : y.attrs.window) {
    input *= w.base_dilation;
    result *= w.stride;
  }
  const ConvDims& conv = *y.attrs.conv;
  return input > result && conv.feature_group_count == 1 && conv.batch_group_count == 1;
}

// The cotangent is the input, the input the kernel: the place of a result in terms of that of an
// element of the input runs backward through the window.
Node* spread_to_kernel(Node& y, Node* c) {
  const ConvDims& conv = *y.attrs.conv;
  Node* const x = y.operand(0);
  std::vector<WindowDim> window;
  Dims reversed;
  for (size_t i = 0; i < y.attrs.window.size(); ++i) {
    const WindowDim& from = y.attrs.window[i];
    const int64_t elements = x->dim(conv.input_spatial[i]);
    WindowDim w = from;
    w.size = elements;
    w.stride = from.window_dilation;
    w.window_dilation = from.base_dilation;
    w.base_dilation = from.stride;
    w.pad_low = (from.size - 1) * from.window_dilation - from.pad_low;
    w.pad_high = from.pad_low + spread_size(elements, from.base_dilation) -
                 spread_size(y.dim(conv.output_spatial[i]), from.stride);
    w.reversal = false;
    if (!from.reversal) reversed.push_back(conv.kernel_spatial[i]);
    window.push_back(w);
  }
  ConvDims dims;
  dims.input_batch = conv.output_feature;
  dims.input_feature = conv.output_batch;
  dims.input_spatial = conv.output_spatial;
  dims.kernel_input_feature = conv.input_batch;
  dims.kernel_output_feature = conv.input_feature;
  dims.kernel_spatial = conv.input_spatial;
  dims.output_batch = conv.kernel_output_feature;
  dims.output_feature = conv.kernel_input_feature;
  dims.output_spatial = conv.kernel_spatial;
  Node* const result = convolve(c, x, std::move(window), std::move(dims), c->shape.dtype);
  return hlo::convert(reversed_along(result, std::move(reversed)), y.operand(1)->shape.dtype);
}

// The input's batch is what is summed over; the cotangent is the kernel.
Node* to_kernel(Node& y, Node* c) {
  if (input_is_spread(y)) return spread_to_kernel(y, c);
  const ConvDims& conv = *y.attrs.conv;
  Node* const x = y.operand(0);
  Node* const kernel = y.operand(1);
  std::vector<WindowDim> window;
  Dims reversed;
  for (size_t i = 0; i < y.attrs.window.size(); ++i) {
    const WindowDim& from = y.attrs.window[i];
    const int64_t positions = y.dim(conv.output_spatial[i]);
    WindowDim w = from;
    w.size = positions;
    w.stride = from.window_dilation;
    w.window_dilation = from.stride;
    w.pad_high = (from.size - 1) * from.window_dilation + spread_size(positions, from.stride) -
                 spread_size(x->dim(conv.input_spatial[i]), from.base_dilation) - from.pad_low;
    w.reversal = false;
    if (from.reversal) reversed.push_back(conv.kernel_spatial[i]);
    window.push_back(w);
  }
  ConvDims dims;
  dims.input_batch = conv.input_feature;
  dims.input_feature = conv.input_batch;
  dims.input_spatial = conv.input_spatial;
  dims.kernel_input_feature = conv.output_batch;
  dims.kernel_output_feature = conv.output_feature;
  dims.kernel_spatial = conv.output_spatial;
  dims.output_batch = conv.kernel_input_feature;
  dims.output_feature = conv.kernel_output_feature;
  dims.output_spatial = conv.kernel_spatial;
  dims.feature_group_count = conv.batch_group_count;
  dims.batch_group_count = conv.feature_group_count;
  Node* const result = convolve(x, c, std::move(window), std::move(dims), c->shape.dtype);
  return hlo::convert(reversed_along(result, std::move(reversed)), kernel->shape.dtype);
}

Nodes convolution(Node& y, Node* c) {
  Node* const x = y.operand(0);
  Node* const kernel = y.operand(1);
  if (x->shape.elements_count() == 0 || kernel->shape.elements_count() == 0 ||
      c->shape.elements_count() == 0)
    return {zeros_like(*x), zeros_like(*kernel)};
  return {to_input(y, c), to_kernel(y, c)};
}

}  // namespace

Nodes convolution_gradient(Node& node, Node* cotangent) {
  return inexact_only<convolution>(node, cotangent);
}

}  // namespace gspmd
