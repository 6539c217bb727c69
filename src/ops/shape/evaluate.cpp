#include <algorithm>

#include "ops/common/loops.h"
#include "ops/common/numeric.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

Value result_of(const Array& array) { return {array, {}, false}; }

int64_t dot_product(const Dims& a, const Dims& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Dims clamped_starts(const EvalContext& context, size_t first, const Dims& dims, const Dims& sizes) {
  Dims starts;
  for (size_t d = 0; d < dims.size(); ++d)
    starts.push_back(clamped_start(context.operands[first + d].array, 0, dims[d], sizes[d]));
  return starts;
}

}  // namespace

Value evaluate_reshape(const EvalContext& context) {
  return result_of(Array(context.node.shape, context.operands[0].array.clone().storage()));
}

Value evaluate_broadcast(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  const Dims strides = row_major_strides(x.dims());
  Dims from(result.dims().size(), 0);
  for (size_t i = 0; i < strides.size(); ++i)
    from[static_cast<size_t>(context.node.attrs.dimensions[i])] = strides[i];
  copy_elements(result.dims(), whole(result), {x, std::move(from)});
  return result_of(result);
}

Value evaluate_transpose(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  const Dims strides = row_major_strides(x.dims());
  Dims from;
  for (const int64_t d : context.node.attrs.dimensions)
    from.push_back(strides[static_cast<size_t>(d)]);
  copy_elements(result.dims(), whole(result), {x, std::move(from)});
  return result_of(result);
}

Value evaluate_reverse(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return result_of(result);
  StridedView from = whole(x);
  for (const int64_t dim : context.node.attrs.dimensions) {
    const auto d = static_cast<size_t>(dim);
    from.base += from.strides[d] * (x.dims()[d] - 1);
    from.strides[d] = -from.strides[d];
  }
  copy_elements(result.dims(), whole(result), from);
  return result_of(result);
}

Value evaluate_concatenate(const EvalContext& context) {
  std::vector<Array> arrays;
  for (const Value& operand : context.operands) arrays.push_back(operand.array);
  const auto dim = static_cast<size_t>(context.node.attrs.dimensions[0]);
  return result_of(concatenated(Array(context.node.shape), arrays, dim));
}

// Operand elements whose place is inside the result; negative padding cuts some off.
Value evaluate_pad(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  fill_elements(result, context.operands[1].array);
  if (result.size() == 0 || x.size() == 0) return result_of(result);
  StridedView to = whole(result);
  StridedView from = whole(x);
  Dims count;
  for (size_t d = 0; d < x.dims().size(); ++d) {
    const PaddingDim& padding = context.node.attrs.padding[d];
    const int64_t step = padding.interior + 1;
    // The first i with low + i * step >= 0, and the first with it >= the result's size.
    const int64_t begin = padding.low >= 0 ? 0 : (-padding.low + step - 1) / step;
    const int64_t room = result.dims()[d] - padding.low;
    const int64_t end = room <= 0 ? 0 : std::min((room - 1) / step + 1, x.dims()[d]);
    count.push_back(end - begin);
    if (count[d] <= 0) return result_of(result);
    to.base += to.strides[d] * (padding.low + begin * step);
    to.strides[d] *= count[d] > 1 ? step : 0;  // a lone element makes no step, however wide
    from.base += from.strides[d] * begin;
  }
  copy_elements(count, to, from);
  return result_of(result);
}

Value evaluate_slice(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return result_of(result);
  StridedView from = whole(x);
  from.base = dot_product(context.node.attrs.starts, from.strides);
  for (size_t d = 0; d < context.node.attrs.strides.size(); ++d)
    from.strides[d] *= result.dims()[d] > 1 ? context.node.attrs.strides[d] : 0;
  copy_elements(result.dims(), whole(result), from);
  return result_of(result);
}

Value evaluate_dynamic_slice(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return result_of(result);
  StridedView from = whole(x);
  from.base = dot_product(clamped_starts(context, 1, x.dims(), result.dims()), from.strides);
  copy_elements(result.dims(), whole(result), from);
  return result_of(result);
}

Value evaluate_dynamic_update_slice(const EvalContext& context) {
  const Array& update = context.operands[1].array;
  const Array result = context.operands[0].array.clone();
  if (update.size() == 0) return result_of(result);
  StridedView to = whole(result);
  to.base = dot_product(clamped_starts(context, 2, result.dims(), update.dims()), to.strides);
  copy_elements(update.dims(), to, whole(update));
  return result_of(result);
}

Value evaluate_iota(const EvalContext& context) {
  const Array result(context.node.shape);
  const Dims strides = row_major_strides(result.dims());
  Dims counter(strides.size(), 0);
  counter[static_cast<size_t>(context.node.attrs.index)] = 1;
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = result.data<T>();
    for_each_offset<2>(result.dims(), {strides, counter}, {0, 0},
                       [&](const std::array<int64_t, 2>& at) {
                         out[static_cast<size_t>(at[0])] = convert_element<T>(at[1]);
                       });
  });
  return result_of(result);
}

}  // namespace gspmd
