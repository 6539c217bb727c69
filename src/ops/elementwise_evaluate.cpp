#include <cstring>

#include "gspmd/base/error.h"
#include "ops/elementwise.h"
#include "ops/loops.h"
#include "ops/numeric.h"

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
struct Floating {
  template <class T>
  static constexpr bool accepts = is_float_v<T>;
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
  visit_dtype(dtype, [&](auto tag) {
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

#define GSPMD_UNARY(Name, expression)    \
  struct Name {                          \
    template <class T>                   \
    static T apply(T x) {                \
      return static_cast<T>(expression); \
    }                                    \
  };
GSPMD_UNARY(Ceil, std::ceil(x))
GSPMD_UNARY(Cosine, std::cos(x))
GSPMD_UNARY(Exponential, std::exp(x))
GSPMD_UNARY(ExponentialMinusOne, std::expm1(x))
GSPMD_UNARY(Floor, std::floor(x))
GSPMD_UNARY(Log, std::log(x))
GSPMD_UNARY(LogPlusOne, std::log1p(x))
GSPMD_UNARY(Logistic, T(1) / (T(1) + std::exp(-x)))
GSPMD_UNARY(Rsqrt, T(1) / std::sqrt(x))
GSPMD_UNARY(Sine, std::sin(x))
GSPMD_UNARY(Sqrt, std::sqrt(x))
GSPMD_UNARY(Tanh, std::tanh(x))
#undef GSPMD_UNARY

struct Negate {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>)
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
    if constexpr (std::is_floating_point_v<T>)
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
    if constexpr (std::is_floating_point_v<T>) {
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
// Integers: by squaring, wrapping; a negative exponent gives the truncated 1 / a^-b.
struct Power {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(a, b);
    } else {
      if constexpr (std::is_signed_v<T>)
        if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
      T result = T(1);
      for (; b != T(0); b = static_cast<T>(b >> 1)) {
        if (b & 1) result = multiply_elements(result, a);
        a = multiply_elements(a, a);
      }
      return result;
    }
  }
};
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

// Bits of a float as an integer that orders -NaN < -inf < ... < -0 < +0 < ... < NaN.
template <class T>
auto total_order(T value) {
  using U = std::conditional_t<sizeof(T) == 2, int16_t,
                               std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  U bits;
  std::memcpy(&bits, &value, sizeof(T));
  return bits < 0 ? static_cast<U>(bits ^ std::numeric_limits<U>::max()) : bits;
}

template <class T>
bool compare_as(Direction direction, T a, T b) {
  switch (direction) {
    case Direction::eq:
      return a == b;
    case Direction::ne:
      return a != b;
    case Direction::ge:
      return a >= b;
    case Direction::gt:
      return a > b;
    case Direction::le:
      return a <= b;
    case Direction::lt:
      return a < b;
  }
  return false;
}

Value compare(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array& y = context.operands[1].array;
  const Array result(context.node.shape);
  const std::span<bool> out = result.data<bool>();
  const Direction direction = context.node.attrs.direction;
  const bool total = context.node.attrs.compare_type == "TOTALORDER";
  visit_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> a = x.data<T>();
    const std::span<const T> b = y.data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (is_float_v<T>) {
        if (total) {
          out[i] = compare_as(direction, total_order(a[i]), total_order(b[i]));
          continue;
        }
      }
      out[i] = compare_as<ComputeType<T>>(direction, a[i], b[i]);
    }
  });
  return {result, {}, false};
}

Value is_finite(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit<Floating>(context.node, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = x.data<T>();
    const std::span<bool> out = result.data<bool>();
    for (size_t i = 0; i < in.size(); ++i) out[i] = std::isfinite(ComputeType<T>(in[i]));
  });
  return {result, {}, false};
}

Value convert(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit_dtype(x.dtype(), [&](auto from) {
    using From = typename decltype(from)::type;
    visit_dtype(result.dtype(), [&](auto to) {
      using To = typename decltype(to)::type;
      const std::span<const From> in = x.data<From>();
      const std::span<To> out = result.data<To>();
      for (size_t i = 0; i < in.size(); ++i) out[i] = convert_element<To>(in[i]);
    });
  });
  return {result, {}, false};
}

Value copy(const EvalContext& context) { return {context.operands[0].array.clone(), {}, false}; }

Value bitcast_convert(const EvalContext& context) {
  return {Array(context.node.shape, context.operands[0].array.clone().storage()), {}, false};
}

// Strides for reading an operand along the result: 0 for a scalar.
Dims operand_strides(const Array& operand, const Dims& dims) {
  return operand.dims().size() == dims.size() ? row_major_strides(dims) : Dims(dims.size(), 0);
}

Value select(const EvalContext& context) {
  const Array& pred = context.operands[0].array;
  const Array& on_true = context.operands[1].array;
  const Array& on_false = context.operands[2].array;
  const Array result(context.node.shape);
  const Dims strides = row_major_strides(result.dims());
  const std::span<const bool> selector = pred.data<bool>();
  visit_dtype(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> a = on_true.data<T>();
    const std::span<const T> b = on_false.data<T>();
    const std::span<T> out = result.data<T>();
    for_each_offset<2>(result.dims(), {strides, operand_strides(pred, result.dims())}, {0, 0},
                       [&](const std::array<int64_t, 2>& at) {
                         const auto i = static_cast<size_t>(at[0]);
                         out[i] = selector[static_cast<size_t>(at[1])] ? a[i] : b[i];
                       });
  });
  return {result, {}, false};
}

Value clamp(const EvalContext& context) {
  const Array& low = context.operands[0].array;
  const Array& x = context.operands[1].array;
  const Array& high = context.operands[2].array;
  const Array result(context.node.shape);
  visit_dtype(result.dtype(), [&](auto tag) {
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

struct Row {
  Opcode opcode;
  Value (*evaluate)(const EvalContext& context);
};
constexpr Row kRows[] = {
    {Opcode::abs, unary<Abs, Number>},
    {Opcode::ceil, unary<Ceil, Floating>},
    {Opcode::cosine, unary<Cosine, Floating>},
    {Opcode::exponential, unary<Exponential, Floating>},
    {Opcode::exponential_minus_one, unary<ExponentialMinusOne, Floating>},
    {Opcode::floor, unary<Floor, Floating>},
    {Opcode::is_finite, is_finite},
    {Opcode::log, unary<Log, Floating>},
    {Opcode::log_plus_one, unary<LogPlusOne, Floating>},
    {Opcode::logistic, unary<Logistic, Floating>},
    {Opcode::negate, unary<Negate, Number>},
    {Opcode::not_, unary<Not, Logical>},
    {Opcode::rsqrt, unary<Rsqrt, Floating>},
    {Opcode::sign, unary<Sign, Number>},
    {Opcode::sine, unary<Sine, Floating>},
    {Opcode::sqrt, unary<Sqrt, Floating>},
    {Opcode::tanh, unary<Tanh, Floating>},
    {Opcode::copy, copy},
    {Opcode::convert, convert},
    {Opcode::bitcast_convert, bitcast_convert},
    {Opcode::add, binary<Add, AnyType>},
    {Opcode::subtract, binary<Subtract, Number>},
    {Opcode::multiply, binary<Multiply, AnyType>},
    {Opcode::divide, binary<Divide, Number>},
    {Opcode::remainder, binary<Remainder, Number>},
    {Opcode::power, binary<Power, Number>},
    {Opcode::maximum, binary<Maximum, AnyType>},
    {Opcode::minimum, binary<Minimum, AnyType>},
    {Opcode::and_, binary<And, Logical>},
    {Opcode::or_, binary<Or, Logical>},
    {Opcode::xor_, binary<Xor, Logical>},
    {Opcode::shift_left, binary<ShiftLeft, Integer>},
    {Opcode::shift_right_arithmetic, binary<ShiftRightArithmetic, Integer>},
    {Opcode::shift_right_logical, binary<ShiftRightLogical, Integer>},
    {Opcode::compare, compare},
    {Opcode::select, select},
    {Opcode::clamp, clamp},
};

}  // namespace

decltype(OpInfo::evaluate) elementwise_evaluate(Opcode opcode) {
  for (const Row& row : kRows)
    if (row.opcode == opcode) return row.evaluate;
  return nullptr;
}

}  // namespace gspmd
