#include <algorithm>
#include <cstring>

#include "base/narrow.h"
#include "gspmd/base/error.h"
#include "ops/common/element_ops.h"
#include "ops/common/loops.h"
#include "ops/common/widen.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

Value compare(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array& y = context.operands[1].array;
  const Array result(context.node.shape);
  const std::span<bool> out = result.data<bool>();
  const Direction direction = context.node.attrs.direction;
  const bool total = context.node.attrs.compare_type == "TOTALORDER";
  visit_number(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> a = x.data<T>();
    const std::span<const T> b = y.data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (is_complex_v<T>) {
        out[i] = (a[i] == b[i]) == (direction == Direction::eq);  // others are refused by infer
        continue;
      } else if constexpr (is_float_v<T>) {
        if (total) {
          out[i] = compare_elements(direction, total_order(a[i]), total_order(b[i]));
          continue;
        }
      }
      if constexpr (!is_complex_v<T>)
        out[i] = compare_elements<ComputeType<T>>(direction, a[i], b[i]);
    }
  });
  return {result, {}, false};
}

Value is_finite(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = x.data<T>();
    const std::span<bool> out = result.data<bool>();
    for (size_t i = 0; i < in.size(); ++i) out[i] = std::isfinite(static_cast<double>(in[i]));
  });
  return {result, {}, false};
}

// Into a narrow type from the widest of its kind: one rounding; floats saturate to integers.
Array converted_to_narrow(const Array& x, DType dtype) {
  const bool from_integers = !is_floating(x.dtype()) && !is_complex(x.dtype());
  if (is_integer(dtype) && from_integers)
    return narrowed(converted(x, Array(DType::s64, x.dims())), dtype);
  const Array wide(DType::f64, x.dims());
  if (x.dtype() == DType::s64 || x.dtype() == DType::u64)
    visit_dtype(x.dtype(), [&](auto tag) {
      const auto in = x.data<typename decltype(tag)::type>();
      std::transform(in.begin(), in.end(), wide.data<double>().begin(),
                     [](auto value) { return to_double_for_rounding(value); });
    });
  else
    converted(x, wide);
  if (is_integer(dtype)) {
    const int bits = narrow_bits(dtype) - (is_signed_integer(dtype) ? 1 : 0);
    const double low = is_signed_integer(dtype) ? -(1 << bits) : 0;
    for (double& value : wide.data<double>())
      value = std::isnan(value) ? 0 : std::clamp<double>(value, low, (1 << bits) - 1);
  }
  return narrowed(wide, dtype);
}

Value convert(const EvalContext& context) {
  const Array x = widened(context.operands[0].array);
  if (is_narrow(context.node.shape.dtype))
    return {converted_to_narrow(x, context.node.shape.dtype), {}, false};
  return {converted(x, Array(context.node.shape)), {}, false};
}

// A complex number from its parts, and the parts.
template <class T>
void join_parts(const Array& re, const Array& im, const Array& result) {
  const std::span<const T> a = re.data<T>();
  const std::span<const T> b = im.data<T>();
  const std::span<std::complex<T>> out = result.data<std::complex<T>>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = {a[i], b[i]};
}

Value complex(const EvalContext& context) {
  const Array result(context.node.shape);
  const Array& re = context.operands[0].array;
  const Array& im = context.operands[1].array;
  if (result.dtype() == DType::c64)
    join_parts<float>(re, im, result);
  else
    join_parts<double>(re, im, result);
  return {result, {}, false};
}

// Of a real number the imaginary part is 0.
template <bool imaginary>
Value part(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit_number(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_complex_v<T>) {
      const std::span<const T> in = x.data<T>();
      const std::span<typename T::value_type> out = result.data<typename T::value_type>();
      for (size_t i = 0; i < out.size(); ++i) out[i] = imaginary ? in[i].imag() : in[i].real();
    } else if constexpr (!imaginary) {
      const std::span<const std::byte> in = x.bytes();
      if (!in.empty()) std::memcpy(result.bytes().data(), in.data(), in.size());
    }
  });
  return {result, {}, false};
}

Value copy(const EvalContext& context) {
  if (context.operands[0].is_tuple) return context.operands[0];
  return {context.operands[0].array.clone(), {}, false};
}

// Strides for reading an operand along the result: 0 for a scalar.
Dims operand_strides(const Array& operand, const Dims& dims) {
  return operand.dims().size() == dims.size() ? row_major_strides(dims) : Dims(dims.size(), 0);
}

// Elements of any type, by their size.
template <size_t kSize>
void select_sized(const Array& pred, const Array& on_true, const Array& on_false,
                  const Array& result) {
  struct Element {
    std::byte bytes[kSize];
  };
  const std::span<const bool> selector = pred.data<bool>();
  const auto* const a = reinterpret_cast<const Element*>(on_true.bytes().data());
  const auto* const b = reinterpret_cast<const Element*>(on_false.bytes().data());
  auto* const out = reinterpret_cast<Element*>(result.bytes().data());
  const bool scalar = pred.dims().size() != result.dims().size();
  for (int64_t i = 0; i < result.size(); ++i)
    out[i] = selector[scalar ? 0 : static_cast<size_t>(i)] ? a[i] : b[i];
}

Value select(const EvalContext& context) {
  const Array& pred = context.operands[0].array;
  const Array& on_true = context.operands[1].array;
  const Array& on_false = context.operands[2].array;
  const Array result(context.node.shape);
  switch (dtype_size(result.dtype())) {
    case 1:
      select_sized<1>(pred, on_true, on_false, result);
      break;
    case 2:
      select_sized<2>(pred, on_true, on_false, result);
      break;
    case 4:
      select_sized<4>(pred, on_true, on_false, result);
      break;
    case 8:
      select_sized<8>(pred, on_true, on_false, result);
      break;
    case 16:
      select_sized<16>(pred, on_true, on_false, result);
      break;
    default:
      break;  // a token has no bytes
  }
  return {result, {}, false};
}

Value clamp(const EvalContext& context) {
  const Array& low = context.operands[0].array;
  const Array& x = context.operands[1].array;
  const Array& high = context.operands[2].array;
  const Array result(context.node.shape);
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const std::span<const T> lo = low.data<T>();
    const std::span<const T> in = x.data<T>();
    const std::span<const T> hi = high.data<T>();
    const std::span<T> out = result.data<T>();
    for_each_offset<3>(result.dims(),
                       {row_major_strides(result.dims()), operand_strides(low, result.dims()),
                        operand_strides(high, result.dims())},
                       {0, 0, 0}, [&](const std::array<int64_t, 3>& at) {
                         const auto i = static_cast<size_t>(at[0]);
                         const C bounded = maximum(C(lo[static_cast<size_t>(at[1])]), C(in[i]));
                         out[i] = T(minimum(C(hi[static_cast<size_t>(at[2])]), bounded));
                       });
  });
  return {result, {}, false};
}

struct EvaluateRow {
  Opcode opcode;
  Value (*evaluate)(const EvalContext& context);
};
// Of these the element type may be any that infer lets pass.
constexpr EvaluateRow kAnyType[] = {
    {Opcode::copy, copy},
    {Opcode::convert, convert},
    {Opcode::bitcast_convert, evaluate_bitcast_convert},
    {Opcode::bitcast, evaluate_bitcast_convert},
    {Opcode::select, select},
    {Opcode::complex, complex},
    {Opcode::stochastic_convert, evaluate_stochastic_convert},
};
// These see no narrow types.
constexpr EvaluateRow kWide[] = {
    {Opcode::atan2, evaluate_atan2},
    {Opcode::clamp, clamp},
    {Opcode::compare, compare},
    {Opcode::imag, part<true>},
    {Opcode::is_finite, is_finite},
    {Opcode::real, part<false>},
    {Opcode::reduce_precision, evaluate_reduce_precision},
};

decltype(OpInfo::evaluate) wide_kernel(Opcode opcode) {
  if (real_function(opcode)) return evaluate_function;
  for (const EvaluateRow& row : kWide)
    if (row.opcode == opcode) return row.evaluate;
  return arithmetic_kernel(opcode);
}

Value evaluate_wide(const EvalContext& context) {
  return evaluate_any_width(context, wide_kernel(context.node.opcode()));
}

}  // namespace

decltype(OpInfo::evaluate) elementwise_evaluate(Opcode opcode) {
  for (const EvaluateRow& row : kAnyType)
    if (row.opcode == opcode) return row.evaluate;
  return wide_kernel(opcode) != nullptr ? evaluate_wide : nullptr;
}

}  // namespace gspmd
