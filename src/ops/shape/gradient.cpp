#include "ops/common/gradient.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

Nodes reshape(Node& y, Node* c) { return {hlo::reshape(c, y.operand(0)->dims())}; }

// Summed over the new dims; what remains is in the result's order, not the operand's.
Nodes broadcast(Node& y, Node* c) {
  const Dims& dimensions = y.attrs.dimensions;
  Dims fresh;
  for (int64_t d = 0; d < y.rank(); ++d)
    if (!contains(dimensions, d)) fresh.push_back(d);
  Dims permutation;
  for (const int64_t d : dimensions)
    permutation.push_back(std::count_if(dimensions.begin(), dimensions.end(),
                                        [d](int64_t other) { return other < d; }));
  Node* const sum = fresh.empty() ? c : hlo::reduce_sum(c, fresh);
  return {transposed(sum, permutation)};
}

Nodes transpose(Node& y, Node* c) {
  Dims inverse(y.attrs.dimensions.size());
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<size_t>(y.attrs.dimensions[i])] = static_cast<int64_t>(i);
  return {hlo::transpose(c, inverse)};
}

Nodes reverse(Node& y, Node* c) {
  Attributes attrs;
  attrs.dimensions = y.attrs.dimensions;
  return {emit(y.parent(), Opcode::reverse, {c}, attrs)};
}

Nodes concatenate(Node& y, Node* c) {
  const auto dim = static_cast<size_t>(y.attrs.dimensions[0]);
  Dims starts(y.dims().size(), 0);
  Dims limits = y.dims();
  Nodes parts;
  for (const Node* operand : y.operands()) {
    limits[dim] = starts[dim] + operand->dims()[dim];
    parts.push_back(hlo::slice(c, starts, limits, Dims(starts.size(), 1)));
    starts[dim] = limits[dim];
  }
  return parts;
}

Nodes pad(Node& y, Node* c) {
  Node* const x = y.operand(0);
  std::vector<PaddingDim> cut;
  Dims strides;
  for (const PaddingDim& padding : y.attrs.padding) {
    cut.push_back({-padding.low, -padding.high, 0});
    strides.push_back(padding.interior + 1);
  }
  Node* const zero = hlo::scalar(y.parent(), y.shape.dtype, 0);
  Node* const spread = hlo::pad(c, zero, cut);
  Node* const to_x = hlo::slice(spread, Dims(x->dims().size(), 0), spread->dims(), strides);
  // What is not the operand's: ones padded around zeros.
  Node* const one = hlo::scalar(y.parent(), y.shape.dtype, 1);
  Node* const outside = hlo::pad(zeros_like(*x), one, y.attrs.padding);
  Node* const to_value =
      hlo::reduce_sum(hlo::binary(Opcode::multiply, c, outside), all_dims(y.rank()));
  return {to_x, to_value};
}

Nodes slice(Node& y, Node* c) {
  std::vector<PaddingDim> padding;
  for (size_t d = 0; d < y.dims().size(); ++d) {
    const int64_t stride = y.attrs.strides.empty() ? 1 : y.attrs.strides[d];
    const int64_t count = y.dims()[d];
    const int64_t used = count == 0 ? 0 : (count - 1) * stride + 1;
    const int64_t start = y.attrs.starts[d];
    padding.push_back({start, y.operand(0)->dims()[d] - start - used, count > 1 ? stride - 1 : 0});
  }
  return {hlo::pad(c, hlo::scalar(y.parent(), y.shape.dtype, 0), padding)};
}

Nodes starts_of(const Node& y, int64_t first) {
  return {y.operands().begin() + first, y.operands().end()};
}

Node* update_slice(Node* x, Node* update, const Nodes& starts) {
  Nodes operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit(x->parent(), Opcode::dynamic_update_slice, operands);
}

Nodes dynamic_slice(Node& y, Node* c) {
  Nodes result(y.operands().size(), nullptr);
  result[0] = update_slice(zeros_like(*y.operand(0)), c, starts_of(y, 1));
  return result;
}

Nodes dynamic_update_slice(Node& y, Node* c) {
  Nodes result(y.operands().size(), nullptr);
  const Nodes starts = starts_of(y, 2);
  result[0] = update_slice(c, zeros_like(*y.operand(1)), starts);
  result[1] = hlo::dynamic_slice(c, starts, y.operand(1)->dims());
  return result;
}

}  // namespace

Nodes reshape_gradient(Node& y, Node* c) { return inexact_only<reshape>(y, c); }
Nodes broadcast_gradient(Node& y, Node* c) { return inexact_only<broadcast>(y, c); }
Nodes transpose_gradient(Node& y, Node* c) { return inexact_only<transpose>(y, c); }
Nodes reverse_gradient(Node& y, Node* c) { return inexact_only<reverse>(y, c); }
Nodes concatenate_gradient(Node& y, Node* c) { return inexact_only<concatenate>(y, c); }
Nodes pad_gradient(Node& y, Node* c) { return inexact_only<pad>(y, c); }
Nodes slice_gradient(Node& y, Node* c) { return inexact_only<slice>(y, c); }
Nodes dynamic_slice_gradient(Node& y, Node* c) { return inexact_only<dynamic_slice>(y, c); }
Nodes dynamic_update_slice_gradient(Node& y, Node* c) {
  return inexact_only<dynamic_update_slice>(y, c);
}
Nodes iota_gradient(Node&, Node*) { return {}; }

}  // namespace gspmd
