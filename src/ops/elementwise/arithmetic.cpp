#include "gspmd/base/error.h"
#include "ops/common/element_ops.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

// f(tag of the element type), where the op is defined on elements of it.
template <Opcode kOp, class F>
void visit(DType dtype, F&& f) {
  visit_number(dtype, [&](auto tag) {
    if constexpr (has_element_op<kOp, typename decltype(tag)::type>())
      f(tag);
    else
      internal_error("{}: no kernel for {}", opcode_name(kOp), dtype_name(dtype));
  });
}

template <Opcode kOp>
Value unary(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit<kOp>(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const std::span<const T> in = x.data<T>();
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < in.size(); ++i) out[i] = T(unary_element<kOp, C>(C(in[i])));
  });
  return {result, {}, false};
}

template <Opcode kOp>
Value binary(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array& y = context.operands[1].array;
  const Array result(context.node.shape);
  visit<kOp>(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const std::span<const T> a = x.data<T>();
    const std::span<const T> b = y.data<T>();
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < a.size(); ++i) out[i] = T(binary_element<kOp, C>(C(a[i]), C(b[i])));
  });
  return {result, {}, false};
}

Value power(const EvalContext& context) {
  return is_integer(context.operands[0].array.dtype()) ? binary<Opcode::power>(context)
                                                       : evaluate_function_power(context);
}

Value absolute(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  if (!is_complex(x.dtype())) return unary<Opcode::abs>(context);
  const Array result(context.node.shape);
  const auto lengths = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const std::complex<T>> in = x.data<std::complex<T>>();
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<T>(std::hypot(double(in[i].real()), double(in[i].imag())));
  };
  if (x.dtype() == DType::c64)
    lengths(TypeTag<float>{});
  else
    lengths(TypeTag<double>{});
  return {result, {}, false};
}

Value sign(const EvalContext& context) {
  return is_complex(context.operands[0].array.dtype()) ? evaluate_complex_sign(context)
                                                       : unary<Opcode::sign>(context);
}

struct ArithmeticRow {
  Opcode opcode;
  Value (*evaluate)(const EvalContext& context);
};
template <Opcode kOp>
constexpr ArithmeticRow kUnary{kOp, unary<kOp>};
template <Opcode kOp>
constexpr ArithmeticRow kBinary{kOp, binary<kOp>};

constexpr ArithmeticRow kArithmeticRows[] = {
    {Opcode::abs, absolute},
    {Opcode::sign, sign},
    {Opcode::power, power},
    kUnary<Opcode::negate>,
    kUnary<Opcode::not_>,
    kUnary<Opcode::popcnt>,
    kUnary<Opcode::count_leading_zeros>,
    kBinary<Opcode::add>,
    kBinary<Opcode::subtract>,
    kBinary<Opcode::multiply>,
    kBinary<Opcode::mulhi>,
    kBinary<Opcode::divide>,
    kBinary<Opcode::remainder>,
    kBinary<Opcode::maximum>,
    kBinary<Opcode::minimum>,
    kBinary<Opcode::and_>,
    kBinary<Opcode::or_>,
    kBinary<Opcode::xor_>,
    kBinary<Opcode::shift_left>,
    kBinary<Opcode::shift_right_arithmetic>,
    kBinary<Opcode::shift_right_logical>,
};

}  // namespace

decltype(OpInfo::evaluate) arithmetic_kernel(Opcode opcode) {
  for (const ArithmeticRow& row : kArithmeticRows)
    if (row.opcode == opcode) return row.evaluate;
  return nullptr;
}

}  // namespace gspmd
