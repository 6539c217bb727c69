#include <bit>

#include "gspmd/base/error.h"
#include "ops/common/numeric.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

// Each op is a struct with `static T apply(T...)` on the types it takes; 16-bit floats are computed
// in float. Which types an op is instantiated for:
struct AnyType {
  template <class T>
  static constexpr bool accepts = true;
};
struct Number {
  template <class T>
  static constexpr bool accepts = !std::is_same_v<T, bool>;
};
struct RealNumber {
  template <class T>
  static constexpr bool accepts = !is_complex_v<T> && !std::is_same_v<T, bool>;
};
struct Integer {
  template <class T>
  static constexpr bool accepts = std::is_integral_v<T> && !std::is_same_v<T, bool>;
};
struct Logical {
  template <class T>
  static constexpr bool accepts = std::is_integral_v<T>;
};

template <class Types, class F>
void visit(const Node& node, DType dtype, F&& f) {
  visit_number(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Types::template accepts<T>)
      f(tag);
    else
      internal_error("{}: no kernel for {}", opcode_name(node.opcode()), dtype_name(dtype));
  });
}

template <class Op, class Types>
Value unary(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit<Types>(context.node, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const std::span<const T> in = x.data<T>();
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < in.size(); ++i) out[i] = T(Op::template apply<C>(C(in[i])));
  });
  return {result, {}, false};
}

template <class Op, class Types>
Value binary(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array& y = context.operands[1].array;
  const Array result(context.node.shape);
  visit<Types>(context.node, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const std::span<const T> a = x.data<T>();
    const std::span<const T> b = y.data<T>();
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < a.size(); ++i) out[i] = T(Op::template apply<C>(C(a[i]), C(b[i])));
  });
  return {result, {}, false};
}

struct Negate {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
      return -x;
    else
      return static_cast<T>(uint64_t(0) - static_cast<uint64_t>(x));
  }
};
struct Abs {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else
      return x < T(0) ? Negate::apply(x) : x;  // the lowest integer stays
  }
};
struct Sign {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x) || x == T(0)) return x;
    }
    return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : T(0);
  }
};
struct Not {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return add_elements(a, b);
  }
};
struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct Multiply {
  template <class T>
  static T apply(T a, T b) {
    return multiply_elements(a, b);
  }
};
// Integers: x / 0 has all bits set, lowest / -1 is lowest.
struct Divide {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T> || is_complex_v<T>) {
      return a / b;
    } else {
      if (b == T(0)) return static_cast<T>(-1);
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1)) return Negate::apply(a);
      return static_cast<T>(a / b);
    }
  }
};
// The sign of the dividend. Integers: x % 0 is x, lowest % -1 is 0.
struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == T(0)) return a;
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1)) return T(0);
      return static_cast<T>(a % b);
    }
  }
};
// Integers by squaring, wrapping; a negative exponent gives the truncated 1 / a^-b.
struct IntegerPower {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>)
      if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
    T result = T(1);
    for (; b != T(0); b = static_cast<T>(b >> 1)) {
      if (b & 1) result = multiply_elements(result, a);
      a = multiply_elements(a, a);
    }
    return result;
  }
};
Value power(const EvalContext& context) {
  const DType dtype = context.operands[0].array.dtype();
  return is_integer(dtype) ? binary<IntegerPower, Integer>(context)
                           : evaluate_function_power(context);
}
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    return maximum(a, b);
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    return minimum(a, b);
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// Shifts by a negative amount or by the width and more: all bits leave (the sign stays in an
// arithmetic shift).
template <class T>
bool shifts_out(T amount) {
  using U = std::make_unsigned_t<T>;
  return static_cast<U>(amount) >= sizeof(T) * 8;
}
struct ShiftLeft {
  template <class T>
  static T apply(T a, T b) {
    return shifts_out(b) ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << b);
  }
};
struct ShiftRightArithmetic {
  template <class T>
  static T apply(T a, T b) {
    const auto value = static_cast<std::make_signed_t<T>>(a);
    return static_cast<T>(shifts_out(b) ? (value < 0 ? -1 : 0) : value >> b);
  }
};
struct ShiftRightLogical {
  template <class T>
  static T apply(T a, T b) {
    return shifts_out(b) ? T(0) : static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) >> b);
  }
};

// In the width of the type.
struct PopulationCount {
  template <class T>
  static T apply(T x) {
    return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
  }
};
struct LeadingZeros {
  template <class T>
  static T apply(T x) {
    return static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(x)));
  }
};

Value absolute(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  if (!is_complex(x.dtype())) return unary<Abs, RealNumber>(context);
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
                                                       : unary<Sign, RealNumber>(context);
}

struct Row {
  Opcode opcode;
  Value (*evaluate)(const EvalContext& context);
};
constexpr Row kRows[] = {
    {Opcode::abs, absolute},
    {Opcode::negate, unary<Negate, Number>},
    {Opcode::not_, unary<Not, Logical>},
    {Opcode::popcnt, unary<PopulationCount, Integer>},
    {Opcode::count_leading_zeros, unary<LeadingZeros, Integer>},
    {Opcode::sign, sign},
    {Opcode::add, binary<Add, AnyType>},
    {Opcode::subtract, binary<Subtract, Number>},
    {Opcode::multiply, binary<Multiply, AnyType>},
    {Opcode::divide, binary<Divide, Number>},
    {Opcode::remainder, binary<Remainder, RealNumber>},
    {Opcode::power, power},
    {Opcode::maximum, binary<Maximum, AnyType>},
    {Opcode::minimum, binary<Minimum, AnyType>},
    {Opcode::and_, binary<And, Logical>},
    {Opcode::or_, binary<Or, Logical>},
    {Opcode::xor_, binary<Xor, Logical>},
    {Opcode::shift_left, binary<ShiftLeft, Integer>},
    {Opcode::shift_right_arithmetic, binary<ShiftRightArithmetic, Integer>},
    {Opcode::shift_right_logical, binary<ShiftRightLogical, Integer>},
};

}  // namespace

decltype(OpInfo::evaluate) arithmetic_kernel(Opcode opcode) {
  for (const Row& row : kRows)
    if (row.opcode == opcode) return row.evaluate;
  return nullptr;
}

}  // namespace gspmd
